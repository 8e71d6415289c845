package wasm

import "math"

// Where fuel is charged.
//
// A charge takes a load, a subtraction and a store, and one in each node of a
// Go guest's code costs a third of the time of the code itself. But work need
// only be charged before it is done, not where it is done. So nodes may be owed:
// whoever comes to a node has been charged that much for it already, and
//
//	charge(n) = max(0, cost(n) + most(n) - owed(n))
//
// where most(n) is the most that any node after n is owed. However the amounts
// are chosen, no count is ever less than the work: whoever comes to n has been
// charged for all work so far and owed(n) more; with the charge that is at least
// cost(n) + most(n) more, so when n is done, at least what the next node is owed.
// A function's entry is owed nothing, nor is a node that looks at what is left.
//
// A count is exact, traps aside, if no charge has to be cut off at 0, and if all
// nodes that can come after a node are owed the same. That makes groups of nodes,
// and settle looks for the largest amount for each: then nodes that are left with
// no charge at all are the most. An arm of an if, for example, is owed what the
// cheaper one costs, and code behind the if is owed all of its cost.
//
// Two kinds of nodes are taken to go to their first successor, and the others are
// owed no more than that one. If they go elsewhere the difference is lost, which
// counts as work: the dispatch of a Go function, which goes elsewhere only to
// resume a goroutine; and a branch on what a call returned, which in Go's code
// asks whether the goroutine gives way. Nodes that end in a trap are owed whatever
// their group is.
//
// Measured with the Go guest of BenchmarkHook, 1 KB, 1.44 million instructions:
// 138,000 charges if each node pays for itself, 55,500 so; the count is 0.02 to
// 0.13 % more than exact. In times of what the guest takes unmetered, with slices
// of 100,000 fuel:
//
//	                                            1 KB   100 KB
//	a charge in each node                       1.26   1.29
//	and jumps within Go functions made direct   1.10   1.11
//	and return left as it is                    1.07   1.07
//	and charged by what is owed                 1.00   1.01
//	less the charges                            0.94   0.95
//	less looking at fuel and depth              0.96   0.95
//	less keeping the depth                      0.98   1.02
//	less all of it, but with direct jumps       0.90   0.91
//
// With slices of 5,000 fuel, calls of the host add 0.07 to 0.09.

// settlePasses bounds the search. Modules of known compilers take up to 6; if it
// ends too early, some charges are more than exact.
const settlePasses = 12

// settle replaces the cost of each node by what it charges.
func (f *flow) settle() {
	f.groups()
	for range settlePasses {
		if !f.lower() {
			break
		}
	}
	for i := range f.nodes {
		if n := &f.nodes[i]; n.owed == math.MaxInt {
			n.owed = 0 // a group of nothing but traps and endless loops
		}
	}
	for i := range f.nodes {
		n := &f.nodes[i]
		n.cost = max(0, n.cost+f.most(i)-f.find(int32(i)).owed)
	}
}

// groups joins the nodes that come after the same one.
func (f *flow) groups() {
	for i := range f.nodes {
		f.nodes[i].owed = math.MaxInt
	}
	for i := range f.nodes {
		if i == 0 || f.nodes[i].looks {
			f.nodes[i].owed = 0
		}
	}
	for i := range f.nodes {
		if f.nodes[i].first {
			continue
		}
		next := f.successors(i)
		for j := 1; j < len(next); j++ {
			f.join(next[j-1].label, next[j].label)
		}
	}
}

// join makes one group of those of two nodes. Outside nothing is owed.
func (f *flow) join(a, b int32) {
	switch {
	case a == outside && b == outside:
	case a == outside:
		f.find(b).owed = 0
	case b == outside:
		f.find(a).owed = 0
	default:
		x, y := f.find(a), f.find(b)
		y.owed = min(x.owed, y.owed)
		x.group = y.group
	}
}

// find returns the node that stands for the group of a node.
func (f *flow) find(i int32) *node {
	for f.nodes[i].group != i {
		up := &f.nodes[f.nodes[i].group]
		f.nodes[i].group = up.group
		i = up.group
	}
	return &f.nodes[i]
}

// lower takes what groups are owed down to what each of their nodes can use,
// and reports whether that changed anything. Going backwards it mostly finds
// successors settled.
func (f *flow) lower() bool {
	changed := false
	for i := len(f.nodes) - 1; i >= 0; i-- {
		n := &f.nodes[i]
		if next := f.successors(i); n.first && next[0].label != outside {
			most := f.find(next[0].label).owed
			for _, e := range next[1:] {
				changed = e.label != outside && f.find(e.label).atMost(most) || changed
			}
		}
		if most := f.most(i); !n.traps && most != math.MaxInt {
			changed = f.find(int32(i)).atMost(n.cost+most) || changed
		}
	}
	return changed
}

func (n *node) atMost(owed int) bool {
	if n.owed <= owed {
		return false
	}
	n.owed = owed
	return true
}

// most is the most that a node after this one is owed.
func (f *flow) most(i int) int {
	most := 0
	for _, e := range f.successors(i) {
		if e.label != outside {
			most = max(most, f.find(e.label).owed)
		}
	}
	return most
}
