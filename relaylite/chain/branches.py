"""`Branches`: every way that a conversation took. What replaces a message or an answer goes on in a branch of its own. Values only.

Branches share their answers, so rows of an answer can be relayed in any of them. Messages are told apart by their words and files,
answers by their identity.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from relaylite.errors import UsageError

if TYPE_CHECKING:
    from relaylite.chain.conversation import Round
    from relaylite.events import Turn

Branch = list["Round"]
Place = tuple[int, int | None]  # a round, and an answer in it; None: its message
Items = list[object]  # keys of the messages and answers of a branch, in order


@dataclass(slots=True)
class Branches:
    """`every` branch in the order of their beginning; `current` is the number of the one that grows.

    `left`: numbers of those that changes left, which `undo` goes back to; `undone`: of those that `undo` left; the last one last.
    """

    every: list[Branch]
    current: int = 0
    left: list[int] = field(default_factory=list)
    undone: list[int] = field(default_factory=list)

    @property
    def rounds(self) -> Branch:
        """The current branch."""
        return self.every[self.current]

    def go_on_with(self, rounds: Branch) -> None:
        """Leave the current branch as it is. If there is a branch of these rounds already, that one goes on."""
        items = _items(rounds)
        number = next((n for n, branch in enumerate(self.every) if _items(branch) == items), len(self.every))
        if number == len(self.every):
            self.every.append(rounds)
        self._leave_for(number)

    def undo(self) -> None:
        """Go back to the branch that the last change left. Raises UsageError if there is none."""
        if not self.left:
            raise UsageError("there is nothing to undo")
        self.undone.append(self.current)
        self.current = self.left.pop()

    def redo(self) -> None:
        """Take the last `undo` back. Raises UsageError if there is none, or if something was changed since."""
        if not self.undone:
            raise UsageError("there is nothing to redo")
        self.left.append(self.current)
        self.current = self.undone.pop()

    def versions(self) -> dict[Place, tuple[int, int]]:
        """Where there are several versions of a message or an answer: the number of the current one, from 0, and how many there are."""
        items = _items(self.rounds)
        found: dict[Place, tuple[int, int]] = {}
        for n_before in sorted({_n_shared(items, _items(branch)) for branch in self.every} - {len(items)}):
            keys = list(self._versions_behind(n_before))
            if len(keys) > 1:
                found[_places(self.rounds)[n_before]] = keys.index(items[n_before]), len(keys)
        return found

    def choose(self, place: Place, version: int) -> None:
        """Go on with that version, from 0, of what stands at `place`, and with what followed it. Raises UsageError if there is none."""
        places = _places(self.rounds)
        if place not in places:
            raise UsageError(f"there is no {'message' if place[1] is None else f'answer {place[1]}'} in round {place[0]}")
        holders = list(self._versions_behind(places.index(place)).values())
        if not 0 <= version < len(holders):
            raise UsageError(f"there is no version {version + 1} here; there {'are' if len(holders) > 1 else 'is'} {len(holders)}")
        if self.current not in holders[version]:
            self._leave_for(max(holders[version], key=self._freshness))

    def n_attempts(self, place: tuple[int, int], agent: str) -> int:
        """How many answers of `agent` there are at that place, to the message that stands there now."""
        return len(self._attempts(place, agent))

    def attempt(self, turn: Turn) -> int:
        """Which of these an answer of the current branch is, from 0."""
        return self._attempts((turn.round, turn.index), turn.agent).index(id(turn))

    def _attempts(self, place: tuple[int, int], agent: str) -> list[int]:
        """Identities of these answers, in the order of the branches that they came in."""
        number, index = place
        rounds = [branch[number] for branch in self.every if len(branch) > number and branch[number].task == self.rounds[number].task]
        turns = [each.turns[index] for each in rounds if len(each.turns) > index]
        return list(dict.fromkeys(id(turn) for turn in turns if turn.agent == agent))

    def _leave_for(self, number: int) -> None:
        if number != self.current:
            self.left.append(self.current)
            self.undone.clear()
            self.current = number

    def _versions_behind(self, n_before: int) -> dict[object, list[int]]:
        """What stands behind the first `n_before` items in the branches that begin as the current one: each with those that hold it."""
        items, found = _items(self.rounds), dict[object, list[int]]()
        for number, branch in enumerate(self.every):
            theirs = _items(branch)
            if theirs[:n_before] == items[:n_before] and len(theirs) > n_before and type(theirs[n_before]) is type(items[n_before]):
                found.setdefault(theirs[n_before], []).append(number)
        return found

    def _freshness(self, number: int) -> tuple[bool, int]:
        """Greater for branches that hold what no other does, then for those that were current later."""
        items = _items(self.every[number])
        is_start = any(n != number and _items(branch)[: len(items)] == items for n, branch in enumerate(self.every))
        return not is_start, max((at for at, left in enumerate([*self.left, *self.undone]) if left == number), default=-1)


def copied(rounds: Branch) -> Branch:
    """The same messages and answers in rounds of their own."""
    return [replace(round, turns=list(round.turns)) for round in rounds]


def _items(rounds: Branch) -> Items:
    return [item for round in rounds for item in ((round.task, round.files), *map(id, round.turns))]


def _places(rounds: Branch) -> list[Place]:
    """The places of `_items`."""
    return [place for number, round in enumerate(rounds) for place in ((number, None), *((number, at) for at in range(len(round.turns))))]


def _n_shared(first: Items, second: Items) -> int:
    return next((n for n, (one, other) in enumerate(zip(first, second, strict=False)) if one != other), min(len(first), len(second)))
