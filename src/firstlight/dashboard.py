# SPDX-License-Identifier: Apache-2.0
"""The Grafana dashboard, built from the rows of panels with Grafana's own typed builders."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.firstlight.cluster.plugins.plugin_utils.monitoring.panels import Panel, rows
from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders import prometheus, stat, statetimeline, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common, dashboard

UID = "firstlight"
HEIGHT = 8
SPAN = 8
"""A third of the width, which is 24 grid units."""

Drawn = stat.Panel | statetimeline.Panel | timeseries.Panel


def dashboard_json(targets: Mapping[str, float] | None = None) -> str:
    """Return the dashboard as JSON for import into Grafana, with a line per target. Its data source is chosen in
    Grafana.
    """
    builder = (
        builders.Dashboard("Firstlight")
        .uid(UID)
        .tags(["firstlight"])
        .refresh("30s")
        .time("now-3h", "now")
        .timezone("browser")
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .with_variable(builders.DatasourceVariable("source").label("Source").type("prometheus"))
        .with_variable(_variable("cluster", "Cluster", "label_values(up, cluster)"))
        .with_variable(_variable("host", "Host", 'label_values(up{cluster=~"$cluster"}, host)'))
    )
    for row in rows(targets or {}):
        builder = builder.with_row(builders.Row(row.title))
        for panel in row.panels:
            builder = builder.with_panel(_drawn(panel))
    return JSONEncoder(sort_keys=True, indent=2).encode(builder.build()) + "\n"


def _source() -> dashboard.DataSourceRef:
    return dashboard.DataSourceRef(type_val="prometheus", uid="${source}")


def _variable(name: str, label: str, query: str) -> builders.QueryVariable:
    return (
        builders.QueryVariable(name)
        .label(label)
        .datasource(_source())
        .query(query)
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(dashboard.VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(".*")
    )


def _line(value: float, *, least: bool) -> builders.ThresholdsConfig:
    """Thresholds that colour values beyond the limit red."""
    below, above = ("red", "green") if least else ("green", "red")
    steps = [dashboard.Threshold(value=None, color=below), dashboard.Threshold(value=value, color=above)]
    return builders.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(steps)


def _drawn(panel: Panel) -> Drawn:
    query = prometheus.Dataquery().expr(panel.question).legend_format(panel.legend).ref_id("A")
    drawn: Drawn
    if panel.kind == "number":
        calculated = common_builders.ReduceDataOptions().calcs(["lastNotNull"])
        drawn = stat.Panel().reduce_options(calculated).graph_mode(common.BigValueGraphMode.NONE)
    elif panel.kind == "states":
        drawn = statetimeline.Panel()
    else:
        drawn = timeseries.Panel().fill_opacity(8).min(0)
        if panel.line is not None:
            drawn = drawn.thresholds(_line(panel.line, least=panel.least)).thresholds_style(
                common_builders.GraphThresholdsStyleConfig().mode(common.GraphThresholdsStyleMode.DASHED)
            )
    return drawn.title(panel.title).datasource(_source()).unit(panel.unit).height(HEIGHT).span(SPAN).with_target(query)
