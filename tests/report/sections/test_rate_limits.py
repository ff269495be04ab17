from leakmeter.report.sections.rate_limits import monthly, section


def test_rates_follow_from_the_cheapest_attack(make_audit, tmp_path):
    result = make_audit(views=("logits",), queries_per_day=500, prices={"query": 0.01})
    made, fewest, short, label = min(
        (cost.made, cost.made_low, cost.short, arm.label)
        for arm in result.verdict.arms
        for cost in arm.costs
        if not arm.control and cost.fidelity == 0.8 and cost.made
    )
    table = section(result, tmp_path).blocks[0]
    row = dict(zip(table.columns, (entry.text for entry in table.rows[0].entries), strict=True))
    assert (row["Queries"], row["Cheapest attack"], row["Copy"]) == (f"{fewest:,} to {made:,}", label, "80%")
    assert row["At 500 a day"] == f"{round(made / 500)} day{'s' if made > 700 else ''}"
    assert row["Price (USD)"] == f"{made / 100:.2f}"
    assert row["A month, at most"] == f"{short // 30:,} a day"  # no try had it by then
    assert monthly(7) is None
    assert monthly(61) == 2


def test_controls_are_never_the_cheapest_attack(make_audit, tmp_path):
    result = make_audit(views=("logits",))
    arms = [arm.model_copy(update={"control": True}) for arm in result.verdict.arms]
    result = result.model_copy(update={"verdict": result.verdict.model_copy(update={"arms": arms})})
    assert section(result, tmp_path) is None
