# SPDX-License-Identifier: Apache-2.0
"""The forty states of forty.yml, as pyinfra has them."""

from io import StringIO

from pyinfra.operations import apt, files, server

PLACE = "/var/lib/firstlight-forty"

for number in range(4):
    files.directory(path=f"{PLACE}/d{number}", mode="755")
for number in range(10):
    text = f"line one of {number}\nline two of {number}\n"
    files.put(src=StringIO(text), dest=f"{PLACE}/d{number % 4}/file{number}", mode="644")
for number in range(8):
    files.template(src="forty.j2", dest=f"{PLACE}/d{number % 4}/template{number}", mode="644", place=PLACE)
for number in range(8):
    files.line(path=f"{PLACE}/d0/lines", line=f"setting{number} = {number}")
for number in range(3):
    files.link(path=f"{PLACE}/link{number}", target=f"{PLACE}/d0/file0")
for package in ("bash", "coreutils", "openssh-server"):
    apt.packages(packages=[package])
for unit in ("ssh.service", "systemd-journald.service"):
    server.shell(commands=[f"systemctl show --property=UnitFileState {unit}"])
server.group(group="forty")
server.user(user="forty", group="forty", create_home=False, ensure_home=False)
