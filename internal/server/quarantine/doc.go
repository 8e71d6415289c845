// Package quarantine decides which runs are resumed after their server crashed. Servers store
// heartbeats with the memory of the process and its largest runs. A run that appears to have
// crashed its server is not resumed until the operator releases it.
package quarantine
