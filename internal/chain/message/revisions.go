package message

import "sync"

// maxRevisions is the number of past revisions whose changes are known. A module that has cached an
// older revision reads the whole list again.
const maxRevisions = 4096

// Revisions records how the lists of one run derive from each other. A module that has cached a
// revision of a list receives the index from which it must read the list again.
type Revisions struct {
	mu    sync.Mutex
	last  int64
	nodes map[int64]revision
}

// A revision derives from its parent. If derived is set, the revision's list is a prefix of length
// first, followed by the parent's list. Otherwise the two lists are equal before index first.
type revision struct {
	parent  int64
	first   int
	derived bool
	prefix  int64 // revision of the prefix; 0 if there is none
}

// NewRevisions returns the revisions of a new run.
func NewRevisions() *Revisions {
	return &Revisions{nodes: map[int64]revision{}}
}

// ResumeRevisions returns the revisions of a resumed run, numbered from last+1. Earlier revisions
// are unknown, so that a list counts as changed from its start since then.
func ResumeRevisions(last int64) *Revisions {
	r := NewRevisions()
	r.last = last
	return r
}

// Last returns the number of the latest revision.
func (r *Revisions) Last() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// root adds the revision of a list that does not derive from another.
func (r *Revisions) root() int64 { return r.add(revision{}) }

// next adds the revision of a list that is equal to its parent's list before index first.
func (r *Revisions) next(parent int64, first int) int64 {
	return r.add(revision{parent: parent, first: first})
}

// derive adds the revision of a list made by [List.Prefixed]. shift is the number of messages in
// the prefix.
func (r *Revisions) derive(parent int64, shift int, prefix int64) int64 {
	return r.add(revision{parent, shift, true, prefix})
}

// add adds a revision, returns its number, and removes the oldest one beyond maxRevisions.
func (r *Revisions) add(n revision) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	r.nodes[r.last] = n
	delete(r.nodes, r.last-maxRevisions)
	return r.last
}

// changed returns the first index at which the lists of revisions a and b may differ. It follows
// the parents of both revisions to their common ancestor, always of the younger one, because a
// parent is older than its children.
func (r *Revisions) changed(a, b int64) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	const unchanged = int(^uint(0) >> 1)
	first, shift := unchanged, 0
	for a != b {
		if a < b {
			a, b = b, a
		}
		n, ok := r.nodes[a]
		if !ok || n.parent == 0 {
			return 0
		}
		if !n.derived {
			first = min(first, n.first+shift)
			a = n.parent
			continue
		}
		// List a was made by [List.Prefixed]. Such lists have a common ancestor without the prefix,
		// or none.
		for {
			m, ok := r.nodes[b]
			if !ok || m.parent == 0 {
				return 0
			}
			if m.derived {
				if m.prefix != n.prefix {
					return 0
				}
				break
			}
			first = min(first, m.first+shift)
			b = m.parent
		}
		a, b, shift = n.parent, r.nodes[b].parent, shift+n.first
	}
	if _, ok := r.nodes[a]; !ok {
		return 0
	}
	return first
}
