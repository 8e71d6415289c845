// Package clusterchaos tests several servers on one PostgreSQL database while processes die, stop and
// are cut off from each other. The servers and the database have network namespaces of one machine,
// and the tests drop packets between them. Runs call a tool that counts its calls, and that must not
// be called twice. The tests need Linux, root, iproute2 and PostgreSQL:
//
//	make cluster-chaos
package clusterchaos
