package store

import (
	"strconv"
	"strings"
)

// An AgentRef names a version of an agent, directly or by an alias.
type AgentRef struct {
	Name    string
	Version int64  // 0 selects the version by Alias
	Alias   string // empty selects the alias stable if the agent has it, else the newest version
	// Run and Thread are the run that starts and its thread, which a rollout assigns to a version. Thread may
	// be empty.
	Run, Thread string
}

// String returns the reference as NAME, NAME@VERSION or NAME@ALIAS.
func (r *AgentRef) String() string {
	switch {
	case r.Version != 0:
		return r.Name + "@" + strconv.FormatInt(r.Version, 10)
	case r.Alias != "":
		return r.Name + "@" + r.Alias
	}
	return r.Name
}

// AgentOf returns the name of the agent of a reference.
func AgentOf(ref string) string {
	name, _, _ := strings.Cut(ref, "@")
	return name
}

// versionOf returns the number of the version that a reference names; 0 is the newest one. It fails
// with [ErrNoAlias] if the agent has no such alias.
func versionOf(t scoped, ref *AgentRef) (version int64, err error) {
	if ref.Version != 0 {
		return ref.Version, nil
	}
	name := ref.Alias
	if name == "" {
		name = StableAlias
	}
	a, err := aliasIn(t, ref.Name, name)
	switch {
	case err != nil:
		return 0, err
	case a != nil:
		return a.Version, nil
	case ref.Alias == "":
		return 0, nil
	}
	if _, err := agentIn(t, ref.Name, 0); err != nil { // the agent may be what is missing
		return 0, err
	}
	return 0, noAlias(ref.Name, name)
}
