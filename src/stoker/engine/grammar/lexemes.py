"""Which parts of a grammar may be matched as lexemes, as whole pieces, without changing its language.

llguidance matches lexemes longest first and never goes back, a grammar over characters knows no
such rule: in `"a"* "ab"` the longest run of a's leaves nothing for the rest. So a part may be one
lexeme only if, wherever its text could end, no lexeme could go on with a character that may also
follow it. Where that fails the part that could go on is taken apart; single characters always
work, but are slow. The test is safe rather than sharp: it takes all lexemes to be possible
everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable

from stoker.engine.grammar.tree import Alt, Chars, Grammar, Node, Ref, Repeat, Seq, children
from stoker.errors import GrammarError

# Past these limits a grammar is taken as it was found so far, longest match included.
_MAX_POSITIONS = 2000
_MAX_STATES = 2000
_MAX_ROUNDS = 50
_MAX_VISITS = 50_000
_MAX_WORK = 3_000_000  # looks at one interval of one character set, in all rounds together: half a second
_MAX_STEPS = 600_000  # nodes visited to find what begins and what follows a rule: about a second
_MAX_COPIES = 3

CharSet = frozenset[int]  # numbers of intervals of the alphabet
_NONE: CharSet = frozenset()


def choose_lexemes(grammar: Grammar) -> dict[Node, bool]:
    """Nodes to be matched whole, and whether each matches the empty text too. Together they cover every
    character of the grammar. Raises GrammarError."""
    return _Chooser(grammar).run()


class _Chooser:
    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar
        self._intervals = _Alphabet(grammar.rules.values())
        self._apart: set[Node] = set()
        self._nullable: dict[str, bool] = dict.fromkeys(grammar.rules, False)
        self._first: dict[str, CharSet] = dict.fromkeys(grammar.rules, _NONE)
        self._regular: dict[Node, bool] = {}
        self._work_left = _MAX_WORK
        self._steps_left = _MAX_STEPS
        self._find_first_sets()

    def run(self) -> dict[Node, bool]:
        follow = self._follow_sets()
        for _ in range(_MAX_ROUNDS):
            if not (offenders := self._offenders(follow)):
                break
            self._apart |= offenders
            follow = self._follow_sets()
        return {lexeme: self._is_nullable(lexeme) for lexeme in follow}

    def _is_lexeme(self, node: Node) -> bool:
        return node not in self._apart and not isinstance(node, Ref) and self._is_regular(node)

    def _is_regular(self, node: Node) -> bool:
        known = self._regular.get(node)
        if known is None:
            if isinstance(node, Ref):
                known = node.rule not in self._grammar.recursive and self._is_regular(
                    self._grammar.rules[node.rule]
                )
            else:
                known = all(self._is_regular(child) for child in children(node))
            self._regular[node] = known
        return known

    def _is_nullable(self, node: Node) -> bool:
        match node:
            case Chars():
                return False
            case Ref():
                return self._nullable[node.rule]
            case Seq():
                return all(self._is_nullable(item) for item in node.items)
            case Alt():
                return any(self._is_nullable(item) for item in node.items)
            case Repeat():
                return node.low == 0 or self._is_nullable(node.item)

    def _count_step(self) -> None:
        self._steps_left -= 1
        if self._steps_left < 0:
            raise GrammarError("it is too large or too complex (its rules refer to each other too often)")

    def _first_of(self, node: Node) -> CharSet:
        self._count_step()
        match node:
            case Chars():
                return self._intervals.of(node)
            case Ref():
                return self._first[node.rule]
            case Seq():
                found = _NONE
                for item in node.items:
                    found |= self._first_of(item)
                    if not self._is_nullable(item):
                        break
                return found
            case Alt():
                return _NONE.union(*(self._first_of(item) for item in node.items))
            case Repeat():
                return self._first_of(node.item)

    def _find_first_sets(self) -> None:
        changed = True
        while changed:
            changed = False
            for name, body in self._grammar.rules.items():
                nullable, first = self._is_nullable(body), self._first_of(body)
                if nullable != self._nullable[name] or first != self._first[name]:
                    self._nullable[name], self._first[name] = nullable, first
                    changed = True

    def _follow_sets(self) -> dict[Node, CharSet]:
        """For each lexeme in use, the characters that may come behind it."""
        follow: dict[Node, CharSet] = {}
        of_rule: dict[str, CharSet] = {self._grammar.root: _NONE}

        def walk(node: Node, behind: CharSet) -> None:
            self._count_step()
            if self._is_lexeme(node):
                follow[node] = follow.get(node, _NONE) | behind
                return
            match node:
                case Ref():
                    of_rule[node.rule] = of_rule.get(node.rule, _NONE) | behind
                case Seq():
                    for item in reversed(node.items):
                        walk(item, behind)
                        first = self._first_of(item)
                        behind = first | behind if self._is_nullable(item) else first
                case Alt():
                    for item in node.items:
                        walk(item, behind)
                case Repeat():
                    more = node.high is None or node.high > 1
                    walk(node.item, behind | self._first_of(node.item) if more else behind)
                case Chars():
                    raise AssertionError("a character is always a lexeme")

        before: dict[str, CharSet] = {}
        while before != of_rule:
            before = dict(of_rule)
            for name in before:
                walk(self._grammar.rules[name], of_rule[name])
        return follow

    def _offenders(self, follow: dict[Node, CharSet]) -> set[Node]:
        """Lexemes that could go on where another one, or they themselves, should end."""
        automaton = _Positions(self._grammar, self._intervals, self._work_left)
        lexemes = list(follow)
        starts: list[int] = []
        for number, lexeme in enumerate(lexemes):
            starts += automaton.add(lexeme, owner=number)
            if automaton.is_full:
                return set()
        conflicts = automaton.conflicts(starts, lexemes, follow)
        self._work_left = automaton.work_left
        return conflicts


class _Alphabet:
    """Characters that no set of the grammar tells apart are one interval."""

    def __init__(self, roots: Iterable[Node]) -> None:
        self._chars: dict[Node, CharSet] = {}
        todo, sets = list(roots), list[Chars]()
        while todo:
            node = todo.pop()
            if isinstance(node, Chars):
                sets.append(node)
            todo += children(node)
        edges = sorted({edge for chars in sets for low, high in chars.ranges for edge in (low, high + 1)})
        number = {edge: index for index, edge in enumerate(edges)}
        for chars in sets:
            self._chars[chars] = frozenset(
                index for low, high in chars.ranges for index in range(number[low], number[high + 1])
            )

    def of(self, chars: Chars) -> CharSet:
        return self._chars[chars]


class _Positions:
    """Lexemes as Glushkov automata: a position for each character set, and what may follow it."""

    def __init__(self, grammar: Grammar, intervals: _Alphabet, work: int) -> None:
        self._grammar = grammar
        self._intervals = intervals
        self.work_left = work
        self.chars: list[CharSet] = []
        self._next: list[set[int]] = []
        self._owner: list[int] = []
        self._last: set[int] = set()
        self._current = 0
        self._visits = 0

    @property
    def is_full(self) -> bool:
        return len(self.chars) > _MAX_POSITIONS or self._visits > _MAX_VISITS

    def add(self, lexeme: Node, owner: int) -> list[int]:
        """Its first positions."""
        self._current = owner
        _, first, last = self._build(lexeme)
        self._last |= last
        return list(first)

    def _build(self, node: Node) -> tuple[bool, set[int], set[int]]:
        """Nullable, first and last positions."""
        self._visits += 1
        if self.is_full:
            return True, set(), set()
        match node:
            case Chars():
                position = len(self.chars)
                self.chars.append(self._intervals.of(node))
                self._next.append(set())
                self._owner.append(self._current)
                return False, {position}, {position}
            case Ref():
                return self._build(self._grammar.rules[node.rule])
            case Seq():
                return self._chain([self._build(item) for item in node.items])
            case Alt():
                built = [self._build(item) for item in node.items]
                return (
                    any(nullable for nullable, _, _ in built),
                    set().union(*(first for _, first, _ in built)),
                    set().union(*(last for _, _, last in built)),
                )
            case Repeat():
                if node.high is not None and node.high <= _MAX_COPIES:
                    parts: list[tuple[bool, set[int], set[int]]] = []
                    for number in range(node.high):
                        nullable, first, last = self._build(node.item)
                        parts.append((nullable or number >= node.low, first, last))
                    return self._chain(parts)
                # Taken for an unlimited one: it then ends and goes on in more places than it does.
                nullable, first, last = self._build(node.item)
                self._connect(last, first)
                return nullable or node.low == 0, first, last

    def _chain(self, parts: list[tuple[bool, set[int], set[int]]]) -> tuple[bool, set[int], set[int]]:
        nullable, first, last = True, set[int](), set[int]()
        for part_nullable, part_first, part_last in parts:
            self._connect(last, part_first)
            first = first | part_first if nullable else first
            last = last | part_last if part_nullable else part_last
            nullable = nullable and part_nullable
        return nullable, first, last

    def _connect(self, ends: set[int], starts: set[int]) -> None:
        for end in ends:
            self._next[end] |= starts

    def conflicts(self, starts: list[int], lexemes: list[Node], follow: dict[Node, CharSet]) -> set[Node]:
        """Walks all lexemes side by side over every text they can begin with."""
        found: set[Node] = set()
        seen: set[frozenset[int]] = set()
        todo = self._steps(starts)
        while todo and len(seen) < _MAX_STATES and self.work_left > 0:
            state = todo.pop()
            if state in seen:
                continue
            seen.add(state)
            ended = _NONE.union(*(follow[lexemes[self._owner[p]]] for p in state if p in self._last))
            successors = set().union(*(self._next[p] for p in state))
            found |= {lexemes[self._owner[p]] for p in successors if not ended.isdisjoint(self.chars[p])}
            todo += self._steps(successors)
        return found

    def _steps(self, positions: Iterable[int]) -> list[frozenset[int]]:
        """The sets of positions that one more character can lead to."""
        by_interval: dict[int, set[int]] = {}
        for position in positions:
            self.work_left -= len(self.chars[position])
            for interval in self.chars[position]:
                by_interval.setdefault(interval, set()).add(position)
        return list({frozenset(reached) for reached in by_interval.values()})
