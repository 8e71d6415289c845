// Package quarantine decides which runs are resumed after their server crashed. Servers send
// heartbeats that say how much memory they and their largest runs use. A run that appears to
// have crashed its server is not resumed until the operator releases it.
package quarantine
