"""The facts this app announces, in the transaction that makes them true. Receivers write rows and nothing else."""

from django.dispatch import Signal

# kwargs: kind (Attention.Kind), subject ("payment:<id>"), payment (or None), priority (0–3), facts (dict), cause_key, at
attention_needed = Signal()
# kwargs: cause_key, by (what ended the cause, in words), at
attention_settled = Signal()
