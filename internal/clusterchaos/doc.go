// Package clusterchaos tests several servers on one PostgreSQL database while processes die, stop, are
// cut off from each other, have wrong clocks and are replaced by another version. The servers and the
// database have network namespaces of one machine, and the tests drop packets between them. Runs call
// a tool that counts its calls, and that must not be called twice. What all clients see of a run must
// be linearizable. A run that kills its nodes must be quarantined after it has stopped two of them, and
// no other run may be. Runs with a blocked module must end within a second. The tests need Linux, root,
// iproute2 and PostgreSQL:
//
//	make cluster-chaos
//
// Other tests restore databases from backups, and promote the standby of a PostgreSQL server, while
// runs are in progress. They need neither root nor namespaces.
package clusterchaos
