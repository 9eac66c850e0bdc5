-- For the comparison of a node with its host, every few seconds: what has not ended, and what ended lately, of all that the node
-- ever had.
CREATE INDEX allocations_of_node_ended ON allocations (node_id, ended_at) WHERE node_id IS NOT NULL;
