"""The indicator ``loadgen``: a network under the four load scenarios of MLPerf Inference."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from pis.indicators.errors import WrongResult
from pis.indicators.frameworks import Framework
from pis.indicators.harness import Indicator, Work, main
from pis.indicators.infer import AnswerCheck, tensorflow_answer, torch_answer
from pis.indicators.load_scenarios import STREAMS, multi_stream, offline, server, single_stream
from pis.indicators.long_runs import SAMPLES, LongRuns, long_run_parameters
from pis.indicators.networks import NETWORK_FRAMEWORKS, network_of, network_parameters
from pis.indicators.parameters import Parameter

_SCENARIOS = ("single-stream", "multi-stream", "server", "offline")


def loadgen_works(framework: Framework, values: dict[str, Any]) -> Iterator[Work]:
    """One work for each scenario; a sample is one image or one sequence."""
    network = network_of(framework, {**values, "batch": 1})
    answers = {"torch": torch_answer, "tensorflow": tensorflow_answer}
    forward = answers[framework.name](framework, network)
    check = AnswerCheck(framework, network, values["dtype"])

    def answer() -> Any:
        output = forward()
        framework.synchronize(output)
        return output

    for scenario in _SCENARIOS if values["scenario"] == "all" else (values["scenario"],):
        bound = {"latency_bound_ms": values["latency_bound_ms"]} if scenario == "server" else {}
        yield Work(
            call=answer,
            per_call=STREAMS if scenario == "multi-stream" else 1,
            unit=SAMPLES,
            parameters={
                "scenario": scenario,
                "queries": values["queries"],
                **bound,
                **network.parameters,
            },
            check=check,
            kind="none",
            timed=LongRuns(partial(run_scenario, scenario, answer, values)),
        )


def run_scenario(
    scenario: str, answer: Callable[[], Any], values: dict[str, Any]
) -> tuple[float, Any]:
    """One run of a scenario.

    :returns: seconds per query, from the scenario's percentile or rate, and an output
    :raises WrongResult: in the scenario ``server``, if no rate keeps the bound
    """
    queries = values["queries"]
    output = answer()
    if scenario == "single-stream":
        return single_stream(answer, queries), output
    if scenario == "multi-stream":
        return multi_stream(answer, queries), output
    if scenario == "offline":
        return 1 / offline(answer, queries), output
    bound_ms = values["latency_bound_ms"]
    rate = server(answer, queries, bound_ms * 1e-3, values["seed"])
    if not rate:
        raise WrongResult(f"no rate keeps 99 % of the latencies within {bound_ms:g} ms")
    return 1 / rate, output


INDICATOR = Indicator(
    name="loadgen",
    title="PiLoadGen",
    summary="A network under MLPerf's four load scenarios: latencies and samples a second.",
    parameters=(
        Parameter("scenario", "all", "how queries arrive", ("all", *_SCENARIOS)),
        Parameter("queries", 1024, "queries of a run", low=10, high=10**7),
        Parameter("latency_bound_ms", 15.0, "server: bound of the 99th percentile", low=1e-3),
        *(
            parameter
            for parameter in network_parameters(("float32", "bfloat16"))
            if parameter.name != "batch"
        ),
        *long_run_parameters(3),
    ),
    frameworks=NETWORK_FRAMEWORKS,
    works=loadgen_works,
)

if __name__ == "__main__":
    raise SystemExit(main(INDICATOR))
