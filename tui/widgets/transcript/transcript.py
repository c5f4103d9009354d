"""The transcript: blocks in order, following the end until the user scrolls away. Only the latest blocks are mounted."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Region
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

from relaylite.terminal_text import fit_for_terminal
from relaylite.tui.conversation import Conversation, RoundRecord, TurnRecord
from relaylite.tui.widgets.transcript.blocks import MESSAGE_CHARACTERS, AnyBlock, Block, MessageBlock, TurnBlock
from relaylite.tui.widgets.transcript.welcome import Welcome

MOUNTED_LIMIT = 40  # appending got five times dearer from 1 to 60 mounted answers
MORE_STEP = 20


class Earlier(Static, can_focus=True):
    """Stands for blocks that are not mounted."""

    BINDINGS: ClassVar[list[BindingType]] = [("enter,space", "more", "Show earlier")]

    class Asked(Message):
        pass

    def action_more(self) -> None:
        self.post_message(self.Asked())

    def on_click(self) -> None:
        self.action_more()


class Transcript(VerticalScroll, can_focus=False):
    """Shows a conversation; `look_of` gives an agent's colour."""

    def __init__(self, conversation: Conversation, color_of: Callable[[str, int], str]) -> None:
        super().__init__(id="transcript")
        self._conversation, self._color_of = conversation, color_of
        self._items: list[RoundRecord | TurnRecord] = []
        self._follows, self._is_placing = True, False
        self._note = ""  # about the model
        self._first = 0  # place in _items of the first mounted block

    def follow(self) -> None:
        """Go to the end and stay there while text comes, until the user scrolls away from it."""
        self._follows, self._is_placing = True, False
        self.scroll_end(animate=False, immediate=True)

    def show_note(self, note: str) -> None:
        """A line about the model, which stands where the conversation is empty; "" for none."""
        self._note = note
        for welcome in self.query(Welcome):
            welcome.show_note(note)

    def watch_virtual_size(self) -> None:
        """Follow the end. Textual's own anchor would scroll a content that is shorter than the widget to above its start."""
        if self._follows:
            self.scroll_end(animate=False, immediate=True)

    def on_resize(self) -> None:
        """A notice or a longer input takes rows from the conversation: its end stays in sight."""
        if self._follows:
            self.scroll_end(animate=False, immediate=True)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._follows = new_value >= self.max_scroll_y and not self._is_placing

    def _place(self, scroll: Callable[[], object]) -> None:
        """Scroll to a place after the next layout and stay there, even if that place is the end until more text comes."""
        self._follows, self._is_placing = False, True

        def place() -> None:
            scroll()
            self.call_after_refresh(setattr, self, "_is_placing", False)

        self.call_after_refresh(place)

    async def on_mount(self) -> None:
        await self.mount(Welcome(self._note))

    @property
    def blocks(self) -> list[AnyBlock]:
        return [block for block in self.query(Block) if isinstance(block, MessageBlock | TurnBlock)]

    def block_of(self, item: RoundRecord | TurnRecord) -> AnyBlock | None:
        return next((block for block in self.blocks if _item_of(block) is item), None)

    def turn_block(self, record: TurnRecord) -> TurnBlock | None:
        """The block of a turn, if it is mounted."""
        block = self.block_of(record)
        return block if isinstance(block, TurnBlock) else None

    async def show_waiting(self, text: str) -> None:
        """A message that waits for the model, until `drop_waiting`."""
        await self.query("#welcome").remove()
        head = Content.assemble(("▪ ", "$primary"), ("you", "bold $primary"), ("  waits for the model", "$muted"))
        body = Content(fit_for_terminal(text[:MESSAGE_CHARACTERS]))
        await self.mount(Static(Content("\n").join([head, body]), id="waiting", classes="message"))
        self.follow()

    async def drop_waiting(self) -> None:
        await self.query("#waiting").remove()

    async def show_all(self) -> None:
        """Show the conversation anew, from its end."""
        self._items = []
        for each in self._conversation.rounds:
            self._items += [each, *each.turns]
        self._first = max(0, len(self._items) - MOUNTED_LIMIT)
        await self.remove_children()
        widgets: list[Widget] = [self._make(item) for item in self._items[self._first :]]
        await self.mount_all(widgets or [Welcome(self._note)])
        await self._update_earlier()
        self.follow()

    async def add(self, item: RoundRecord | TurnRecord, before: TurnRecord | None = None) -> AnyBlock:
        """Append a block, or put it before that of another turn; the oldest mounted one makes room."""
        await self.query("#welcome").remove()
        self._items.insert(self._items.index(before) if before is not None else len(self._items), item)
        block = self._make(item)
        await self.mount(block, before=self.block_of(before) if before is not None else None)
        blocks = self.blocks
        if len(blocks) > MOUNTED_LIMIT + MORE_STEP:  # some at a time, so that it happens seldom
            surplus = len(blocks) - MOUNTED_LIMIT
            self._first += surplus
            await self.remove_children(blocks[:surplus])
            await self._update_earlier()
        return block

    async def drop(self, gone: list[RoundRecord | TurnRecord]) -> None:
        for item in gone:
            block = self.block_of(item)
            if block is not None:
                await block.remove()
        self._items = [item for item in self._items if item not in gone]
        if not self._items:
            await self.show_all()

    def show_place(self, item: RoundRecord | TurnRecord) -> None:
        """Select the block of that item, if it is mounted, and scroll to it."""
        block = self.block_of(item)
        if block is not None:
            block.focus(scroll_visible=False)
            self._place(partial(self.scroll_to_widget, block, animate=False, top=True))

    async def show_earlier(self, upto: int | None = None) -> None:
        """Mount the blocks before the first mounted one; all from place `upto` on, if given."""
        first = max(0, self._first - MORE_STEP) if upto is None else upto
        if first >= self._first:
            return
        self._follows = False
        new = [self._make(item) for item in self._items[first : self._first]]
        before = self.blocks[0] if self.blocks else None
        self._first = first
        await self.mount_all(new, before=before)
        await self._update_earlier()

    async def reveal(self, item: RoundRecord | TurnRecord, line: int, text: str) -> None:
        """Scroll to a line of a block's text, mounting the block if need be, and mark `text`. Focus stays where it is."""
        if item not in self._items:
            return
        await self.show_earlier(self._items.index(item))
        block = self.block_of(item)
        if block is None:
            return
        if block.is_folded:
            await block.action_fold()
        for other in self.blocks:
            if other is not block:
                other.remove_class("hit")
                other.mark("", -1)
        block.add_class("hit")
        self._place(partial(self._scroll_to_line, block, line, text))

    def _scroll_to_line(self, block: AnyBlock, line: int, text: str) -> None:
        row = block.mark(text, line)
        target = Region(0, block.virtual_region.y + row, 1, 1)
        self.scroll_to_region(target, animate=False, center=True)

    def clear_mark(self) -> None:
        """Take the mark of the last `reveal` away."""
        for block in self.blocks:
            block.remove_class("hit")
            block.mark("", -1)

    def on_block_unfolded(self, event: Block.Unfolded) -> None:
        self._place(partial(self.scroll_to_widget, event.block, animate=False, top=True))

    async def on_earlier_asked(self) -> None:
        await self.show_earlier()

    async def _update_earlier(self) -> None:
        text = Content(f"▲ {self._first} earlier blocks; Enter shows more")
        shown = next(iter(self.query(Earlier)), None)
        if not self._first and shown is not None:
            await shown.remove()
        elif self._first and shown is None:
            await self.mount(Earlier(text), before=0)
        elif shown is not None:
            shown.update(text)

    def _make(self, item: RoundRecord | TurnRecord) -> AnyBlock:
        if isinstance(item, RoundRecord):
            return MessageBlock(item)
        colors = {turn.agent: self._color_of(turn.agent, turn.index) for turn in self._conversation.turns()}
        return TurnBlock(item, self._color_of(item.agent, item.index), colors)


def _item_of(block: AnyBlock) -> RoundRecord | TurnRecord:
    return block.round if isinstance(block, MessageBlock) else block.record
