// Package rollouts moves aliases to other versions of agents, step by step, and rolls them back if
// the new version is worse than the old one. The store assigns runs and threads to versions, and has
// the figures of their finished runs. Any server may check a rollout. A transaction ensures that each
// change is made once.
package rollouts
