"""Test the phases to which figures refer."""

from millrace.model.phases import MeasuredPhases, measured_phases


def test_where_clients_are_driven_their_time_counts() -> None:
    kinds = [("fill", "load_tables"), ("run", "drive"), ("sizes", "sql")]
    assert measured_phases(kinds, ["transactions", "fill_duration_s"]) == MeasuredPhases(
        "run", ("run",), ("fill",)
    )


def test_else_that_of_the_phases_in_the_primary_metric_in_their_order() -> None:
    kinds = [("fill", "load_data"), ("flush", "sql"), ("count", "count")]
    found = measured_phases(kinds, ["rows", "flush_duration_s", "fill_duration_s"])
    assert found == MeasuredPhases(None, ("fill", "flush"), ("fill",))
    assert found.durations == ("fill_duration_s", "flush_duration_s")
