package middleware

// Revision names the state of the list in which it was shown to this hook.
// Revisions belong to a run and may be kept in a [Local].
func (h *History) Revision() int64 { return h.shown.Revision }

// ChangedSince returns the first index at which the list as it was shown
// differs from an earlier revision of it: its length then if it does not, and
// 0 if the host no longer knows that revision. So a hook that keeps the
// revision at which it looked last has to look only from there on, even after
// the module's memory was wiped. Ask before editing: edits move the indices.
func (h *History) ChangedSince(revision int64) int {
	if revision == h.shown.Revision {
		return h.shown.Total
	}
	first, err := h.shown.host.Changed(h.shown.List.List, revision)
	if err != nil {
		return 0
	}
	return min(max(first, 0), h.shown.Total)
}
