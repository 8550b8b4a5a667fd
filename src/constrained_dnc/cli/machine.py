"""The command machine: the automaton inside a trained model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from constrained_dnc.cli.parsing import ModelOptions, Selection, option
from constrained_dnc.cli.terminal import print_stderr, print_table
from constrained_dnc.config import format_lengths, parse_lengths
from constrained_dnc.errors import require_integer

if TYPE_CHECKING:
    from constrained_dnc.machine.extraction import Extraction
    from constrained_dnc.model.dnc import DNC
    from constrained_dnc.tasks.task import AbstractTask

MOST_ROWS = 60
"""Of a table on the terminal; the JSON file has all."""


@dataclass(frozen=True)
class Machine(ModelOptions):
    """Extract the finite-state machine inside a model, and say how faithful it is."""

    lengths: Annotated[str | None, option(metavar="LENGTHS")] = None
    """Lengths at which network and machine are compared; by default the shortest and the longest
    training length, and twice the longest."""
    memory: Annotated[int | None, option()] = None
    """Slots in that comparison; by default as in training."""
    samples: int = 64
    """Inputs of every length in that comparison."""
    states: Annotated[int | None, option()] = None
    """States before minimisation; by default the fewest with which 99 % of the answers stay."""
    certify: Annotated[int | None, option(metavar="LENGTH")] = None
    """Try to prove that with one-hot writes every input of up to this length is answered right."""
    selection: Selection = None
    output: Annotated[Path | None, option(metavar="DIR")] = None
    """Write machine.json, machine.dot and machine.svg there."""

    def run(self) -> int:
        """Extract, print, compare."""
        lengths = None if self.lengths is None else parse_lengths(self.lengths)
        if self.certify is not None:
            require_integer("--certify", self.certify, 1)
        from constrained_dnc.evaluation.states import distinct_states  # noqa: PLC0415 - slow
        from constrained_dnc.machine.extraction import extract_machine  # noqa: PLC0415 - slow
        from constrained_dnc.machine.fidelity import fidelity  # noqa: PLC0415 - slow to import
        from constrained_dnc.model.constraints import Rounding  # noqa: PLC0415 - slow to import

        run = self.open_run()
        model, training = run.selected(self.selection).model, run.config.training
        shortest, longest = training.min_length, training.max_length
        trained = range(shortest, longest + 1)
        extraction = extract_machine(model, run.task, lengths=trained, states=self.states)
        print_machine(extraction)
        if self.output is not None:
            _write(extraction, model, self.output)
        compared = lengths or sorted({shortest, longest, 2 * longest})
        larger = model if self.memory is None else model.with_memory_size(self.memory)
        table = fidelity(larger, extraction.machine, run.task, compared, samples=self.samples)
        shares = ("network", "machine", "agreement", "network_whole", "machine_whole")
        cells: list[list[Any]] = [
            [int(row["length"]), *(f"{100 * row[share]:.1f} %" for share in shares)]
            for row in table.to_dict("records")
        ]
        headings = ["length", "network", "machine", "agreement", "whole: network", "machine"]
        if any(isinstance(constraint, Rounding) for constraint in model.constraints):
            headings.append("states visited")
            for row in cells:
                row.append(distinct_states(larger, run.task, row[:1]))
        print()
        print_table(headings, cells, left=0)
        _print_checks(larger, extraction, run.task)
        if self.certify is not None:
            _print_certificates(larger, extraction, run.task, self.certify)
        return 0


def print_machine(extraction: Extraction) -> None:
    """Its size and its table."""
    from constrained_dnc.machine.graph import describe  # noqa: PLC0415 - slow to import

    states, reads, commands = extraction.machine.size
    if not extraction.is_faithful:
        print("No machine found: the largest tried differs in more than 1 % of the answers.")
    print(
        f"states: {states} (before minimisation {extraction.states}), read symbols: {reads}, "
        f"commands: {commands}, transitions seen: {extraction.transitions}; "
        f"{100 * extraction.conflicts:.2f} % of steps conflict with them"
    )
    if not extraction.is_faithful:
        return
    if reads == 1:
        print("The machine takes no notice of what it reads: one read symbol is enough.")
    rows = describe(extraction.machine)
    print()
    header = ["state", "input", "read", "next state", "command", "answer"]
    print_table(header, rows[:MOST_ROWS], left=len(header))
    if len(rows) > MOST_ROWS:
        print(f"... and {len(rows) - MOST_ROWS} more")


def _print_checks(model: DNC, extraction: Extraction, task: AbstractTask) -> None:
    """The shortest input that tells machine and network apart, and gaps of the table."""
    from constrained_dnc.machine import fidelity  # noqa: PLC0415 - slow to import
    from constrained_dnc.tasks.sequence import AbstractSequenceTask  # noqa: PLC0415

    machine, shortest, longest = extraction.machine, extraction.lengths[0], extraction.lengths[-1]
    tried = 0
    print()
    for length in dict.fromkeys((*range(1, shortest + 1), longest)):
        check = fidelity.check_inputs(model, machine, task, length)
        tried += check.inputs
        if check.different:
            text = task.format_problem(check.counterexample)
            print(f"Shortest input found with different answers, length {length}: {text}")
            break
    else:
        print(f"No input found with different answers, of {tried} up to length {longest}.")
    if isinstance(task, AbstractSequenceTask):
        hardest, loss, is_right = fidelity.hardest_input(machine.apply(model), task, longest)
        text = (
            f"loss {loss:.2g}" if is_right else f"a wrong answer to {task.format_problem(hardest)}"
        )
        print(f"A search for hard inputs of length {longest} leads the machine to {text}.")
    missing = fidelity.missing_transitions(machine, task)
    if missing:
        state, symbol = missing[0]
        gap = f"{machine.input_names[symbol]!r} in state {machine.state_names[state]!r}"
        print(f"Reachable transitions that the table lacks: {len(missing)}, first {gap}.")
    elif missing is not None:
        print("The table has every transition that an input of any length can reach.")


def _print_certificates(
    model: DNC, extraction: Extraction, task: AbstractTask, longest: int
) -> None:
    """The lengths at which every answer is proved right, and why not at others."""
    from constrained_dnc.machine.certificate import certify  # noqa: PLC0415 - slow to import

    proofs = [certify(model, extraction.machine, task, n) for n in range(1, longest + 1)]
    proved = [proof.length for proof in proofs if proof.holds]
    print(
        f"\nProved right for every input of length {format_lengths(proved) or '-'} (the machine "
        f"with one-hot writes and {proofs[0].slots} slots, up to rounding)."
    )
    for reason in dict.fromkeys(proof.breaks for proof in proofs if not proof.holds):
        lengths = format_lengths(proof.length for proof in proofs if proof.breaks == reason)
        print(f"Not proved at length {lengths}: {reason}.")


def _write(extraction: Extraction, model: DNC, folder: Path) -> None:
    from constrained_dnc.files import make_folder, write_atomically  # noqa: PLC0415
    from constrained_dnc.machine import graph  # noqa: PLC0415 - slow to import

    make_folder(folder)
    texts = {
        "machine.json": graph.as_json(extraction.machine, model),
        "machine.dot": graph.as_dot(extraction.machine),
        "machine.svg": graph.machine_svg(extraction.machine),
    }
    for name, text in texts.items():
        write_atomically(folder / name, text.encode())
        print_stderr(f"wrote {folder / name}")
