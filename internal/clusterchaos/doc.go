// Package clusterchaos tests several servers on one PostgreSQL database while processes die, stop and
// are cut off from each other. Servers and database have network namespaces of one machine, between
// which routes are cut. Runs call a tool that must not be called twice, and which counts its calls.
// It needs Linux, root, iproute2 and PostgreSQL:
//
//	make cluster-chaos
package clusterchaos
