-- What is said where the table is made (0007) is not true any more: placement looks at its copy in memory first.
COMMENT ON TABLE node_capacity IS
    'Which transaction last changed what placement sees of a node''s slots, by class of slots, and how many of them are
     free and used; kept by triggers in the transaction that moves them, under the node''s lock. The copies of the nodes
     in memory ask it what changed. Nothing is placed by the counts: the audit compares them with the slots, and
     schedulers of an older release looked at them first.';
