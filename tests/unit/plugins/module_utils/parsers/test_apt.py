# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.apt import (
    Step,
    parse_complaints,
    parse_madison,
    parse_records,
    parse_simulation,
    parse_unmet,
    parse_uris,
    relation_names,
)

SIMULATION = """\
NOTE: This is only a simulation!
      apt-get needs root privileges for real execution.
Reading package lists...
Building dependency tree...
The following packages will be REMOVED:
  nvidia-driver-580-open
Remv nvidia-driver-580-open [580.95.05-0ubuntu0.24.04.2] [nvidia-dkms-580-open:arm64 ]
Purg leftover [1.0]
Inst libnvidia-compute-580 [580.95.05-0ubuntu0.24.04.2] (580.126.09-0ubuntu0.24.04.2 Lab:one, Lab:two [arm64]) []
Inst dkms (3.0.11-1ubuntu13 Ubuntu:24.04/noble [all]) []
Inst libc6:i386 (2.39-0ubuntu8 Ubuntu:24.04/noble [i386])
Conf libnvidia-compute-580 (580.126.09-0ubuntu0.24.04.2 Lab:one [arm64])
"""


def test_a_simulation_is_read_step_by_step() -> None:
    assert parse_simulation(SIMULATION) == [
        Step("nvidia-driver-580-open", "580.95.05-0ubuntu0.24.04.2", None),
        Step("leftover", "1.0", None),
        Step(
            "libnvidia-compute-580",
            "580.95.05-0ubuntu0.24.04.2",
            "580.126.09-0ubuntu0.24.04.2",
            "Lab:one, Lab:two",
        ),
        Step("dkms", None, "3.0.11-1ubuntu13", "Ubuntu:24.04/noble"),
        Step("libc6:i386", None, "2.39-0ubuntu8", "Ubuntu:24.04/noble"),
    ]
    assert parse_simulation("") == []


def test_errors_are_told_before_warnings_and_each_once() -> None:
    text = "W: slow\n" + 2 * "E: The repository is not signed.\n" + "E: Some index files failed to download.\n"
    assert parse_complaints(text) == ["The repository is not signed."]
    assert parse_complaints("W: GPG error: key expired\nfine\n") == ["GPG error: key expired"]
    assert parse_complaints("E: Some index files failed to download.\n") == ["Some index files failed to download."]
    assert parse_complaints("fine\n") == []


def test_unmet_dependencies_are_told_by_package() -> None:
    text = (
        "Reading package lists...\nThe following packages have unmet dependencies:\n"
        " driver : Depends: library (= 2) but 1 is to be installed\n"
        "          Depends: utils (= 2) but 1 is to be installed\n"
        " utils : Depends: library (= 2) but 1 is to be installed\n"
        "E: Unable to correct problems, you have held broken packages.\n"
    )
    assert parse_unmet(text) == [
        "driver : Depends: library (= 2) but 1 is to be installed",
        "driver : Depends: utils (= 2) but 1 is to be installed",
        "utils : Depends: library (= 2) but 1 is to be installed",
    ]
    assert parse_unmet("fine\n") == []


def test_versions_on_offer() -> None:
    text = (
        " nvidia-utils-580 | 580.126.09-1 | http://one suite/main arm64 Packages\n"
        " nvidia-utils-580 | 580.126.09-1 | http://two suite/main arm64 Packages\n"
        " nvidia-utils-580 | 580.95.05-1 | http://one suite/main arm64 Packages\n"
        " nvidia-utils-580 | 1 | http://one suite/main Sources\n"
    )
    assert parse_madison(text) == {"nvidia-utils-580": ["580.126.09-1", "580.95.05-1"]}


def test_records_and_their_relations() -> None:
    text = (
        "Package: a\nConflicts: x, y (<< 2) | z:any\nDescription: words\n more: words\n\n"
        "Package: b\nProvides: p (= 1)\n\nno package: here\n"
    )
    records = parse_records(text)
    assert [record["Package"] for record in records] == ["a", "b"]
    assert "more" not in records[0]
    assert relation_names(records, ("Conflicts", "Provides")) == {"x", "y", "z", "p"}
    assert relation_names(records, ("Breaks",)) == set()


def test_files_to_fetch() -> None:
    text = (
        "Reading package lists...\n"
        "'http://lab/pool/docker-ce_5%253a29-1_arm64.deb' docker-ce_5%3a29-1_arm64.deb 12 SHA256:ab\n"
        "'file:/srv/n/a_1_all.deb' a_1_all.deb 704 \n"
        "'http://lab/dists/x/InRelease' lab_dists_InRelease 0 \n"
    )
    docker, local = parse_uris(text)
    assert (docker.package, docker.version, docker.size, docker.checksum) == ("docker-ce", "5:29-1", 12, "SHA256:ab")
    assert docker.uri == "http://lab/pool/docker-ce_5%3a29-1_arm64.deb"
    assert (local.uri, local.version, local.checksum) == ("file:/srv/n/a_1_all.deb", "1", "")


def test_what_is_wrong_with_a_signature_comes_first() -> None:
    text = (
        "W: GPG error: http://lab x InRelease: The following signatures were invalid: BADSIG 2CB957E4886442A4 Lab\n"
        "E: The repository 'http://lab x InRelease' is not signed.\n"
    )
    assert parse_complaints(text) == [
        "GPG error: http://lab x InRelease: The following signatures were invalid: BADSIG 2CB957E4886442A4 Lab",
        "The repository 'http://lab x InRelease' is not signed.",
    ]


def test_a_bad_signature_in_the_words_of_apt_3() -> None:
    said = "error message is: Verifying signature:            Message has been manipulated"
    text = (
        f"Err:1 http://lab x InRelease\n  Sub-process /usr/bin/sqv returned an error code (1), {said}\n"
        f"W: OpenPGP signature verification failed: http://lab x InRelease: Sub-process /usr/bin/sqv failed, {said}\n"
        "E: The repository 'http://lab x InRelease' is not signed.\n"
    )
    first, second = parse_complaints(text)
    assert first.endswith("error message is: Verifying signature: Message has been manipulated")
    assert second == "The repository 'http://lab x InRelease' is not signed."
