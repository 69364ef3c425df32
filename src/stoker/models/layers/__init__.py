"""Layers the families share. Plain objects with slots: no module hooks between two matrices.

Legend of shapes here: T tokens of the step (rows concatenated), H query heads, J key heads,
D head size. Hidden states between blocks are float32 whatever the compute dtype; matrices
are multiplied in the compute dtype. Linear layers are attributes, so that training can
replace one by its adapted version.
"""
