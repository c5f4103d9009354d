"""Types that the rows in a cache may have: ggml's numbers for them (enum ggml_type), and the names that users give."""

from __future__ import annotations

F32, F16, Q4_0, Q8_0, BF16 = 0, 1, 2, 8, 30

KV_TYPES = {"f16": F16, "f32": F32, "bf16": BF16, "q8_0": Q8_0, "q4_0": Q4_0}
