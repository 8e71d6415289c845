package wasm

import "math"

// Where fuel is charged.
//
// A charge is a load, a subtraction and a store. One charge in each node of a Go guest's
// code adds a third to the code's run time. But work need only be charged before it is
// done, not where it is done. So a node may be prepaid: every path to it has already
// charged that amount, and
//
// 	charge(n) = max(0, cost(n) + maxPrepaid(n) - prepaid(n))
//
// where maxPrepaid(n) is the largest prepaid amount of n's successors. The count is never
// less than the work, whatever amounts are chosen: every path to n has charged all
// previous work and prepaid(n) more. The charge adds at least cost(n) + maxPrepaid(n) -
// prepaid(n). So when n is done, at least the next node's prepaid amount has been charged
// in advance. The entry of a function and nodes that check the fuel are not prepaid.
//
// Traps aside, the count is exact if no charge is cut off at 0 and all successors of each
// node have the same prepaid amount. Nodes with a common predecessor therefore form
// groups, and settle searches for the largest amount for each group, which leaves the
// most nodes without a charge. An arm of an if, for example, is prepaid with the cost of
// the cheaper arm, and the code after the if with all of its cost.
//
// Two kinds of nodes are assumed to continue at their first successor; the prepaid
// amounts of their other successors are at most the first one's. If such a node continues
// at another successor, the difference is charged although there is no work for it. One
// kind is the dispatch of a Go function, which does so only to resume a goroutine. The
// other is a branch on the result of a call, which in Go code tests whether the goroutine
// yields. A node that ends in a trap has the prepaid amount of its group.
//
// Measured with the Go guest of BenchmarkHook, 1 KB, 1.44 million instructions: 138,000
// charges if each node pays for itself, 55,500 with prepaid nodes; the count exceeds the
// exact one by 0.02 to 0.13 %. Run times relative to the unmetered guest, with slices of
// 100,000 fuel:
//
// 	                                            1 KB   100 KB
// 	a charge in each node                       1.26   1.29
// 	and jumps within Go functions made direct   1.10   1.11
// 	and return left unchanged                   1.07   1.07
// 	and prepaid nodes                           1.00   1.01
// 	without the charges                         0.94   0.95
// 	without the checks of fuel and depth        0.96   0.95
// 	without the depth counter                   0.98   1.02
// 	only direct jumps                           0.90   0.91
//
// With slices of 5,000 fuel, calls of the host add 0.07 to 0.09.

// settlePasses is the maximum number of passes that settle makes. Modules of known compilers need
// up to 6. If settle reaches the maximum, some charges exceed the exact ones.
const settlePasses = 12

// settle replaces the cost of each node with its charge.
func (f *flow) settle() {
	f.groups()
	for range settlePasses {
		if !f.lower() {
			break
		}
	}
	for i := range f.nodes {
		if n := &f.nodes[i]; n.prepaid == math.MaxInt {
			n.prepaid = 0 // the group has only traps and endless loops
		}
	}
	for i := range f.nodes {
		n := &f.nodes[i]
		n.cost = max(0, n.cost+f.maxPrepaid(i)-f.find(int32(i)).prepaid)
	}
}

// groups initializes the prepaid amounts and joins the successors of each node, except of nodes
// that are likely to continue at their first successor.
func (f *flow) groups() {
	for i := range f.nodes {
		f.nodes[i].prepaid = math.MaxInt
	}
	for i := range f.nodes {
		if i == 0 || f.nodes[i].checks {
			f.nodes[i].prepaid = 0
		}
	}
	for i := range f.nodes {
		if f.nodes[i].likelyFirst {
			continue
		}
		next := f.successors(i)
		for j := 1; j < len(next); j++ {
			f.join(next[j-1].label, next[j].label)
		}
	}
}

// join merges the groups of nodes a and b. If one of them is noNode, which means the end of the
// function, the group of the other node is not prepaid.
func (f *flow) join(a, b int32) {
	switch {
	case a == noNode && b == noNode:
	case a == noNode:
		f.find(b).prepaid = 0
	case b == noNode:
		f.find(a).prepaid = 0
	default:
		x, y := f.find(a), f.find(b)
		y.prepaid = min(x.prepaid, y.prepaid)
		x.group = y.group
	}
}

// find returns the representative of a node's group.
func (f *flow) find(i int32) *node {
	for f.nodes[i].group != i {
		up := &f.nodes[f.nodes[i].group]
		f.nodes[i].group = up.group
		i = up.group
	}
	return &f.nodes[i]
}

// lower reduces the prepaid amount of each group to the largest amount that every node of the group
// can use. It reports whether it changed an amount. It visits the nodes backwards, so that most
// successors are settled before their predecessors.
func (f *flow) lower() bool {
	changed := false
	for i := len(f.nodes) - 1; i >= 0; i-- {
		n := &f.nodes[i]
		if next := f.successors(i); n.likelyFirst && next[0].label != noNode {
			limit := f.find(next[0].label).prepaid
			for _, e := range next[1:] {
				changed = e.label != noNode && f.find(e.label).atMost(limit) || changed
			}
		}
		if limit := f.maxPrepaid(i); !n.traps && limit != math.MaxInt {
			changed = f.find(int32(i)).atMost(n.cost+limit) || changed
		}
	}
	return changed
}

// atMost lowers n.prepaid to prepaid and reports whether n.prepaid was higher.
func (n *node) atMost(prepaid int) bool {
	if n.prepaid <= prepaid {
		return false
	}
	n.prepaid = prepaid
	return true
}

// maxPrepaid returns the largest prepaid amount of the successors of node i.
func (f *flow) maxPrepaid(i int) int {
	limit := 0
	for _, e := range f.successors(i) {
		if e.label != noNode {
			limit = max(limit, f.find(e.label).prepaid)
		}
	}
	return limit
}
