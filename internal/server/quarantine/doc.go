// Package quarantine decides which runs are resumed after their server crashed. Servers store
// heartbeats that record the memory usage of the process and of its largest runs. A run that
// appears to have crashed its server is not resumed until the operator releases it.
package quarantine
