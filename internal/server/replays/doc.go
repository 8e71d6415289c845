// Package replays replays stored runs of agents with a candidate: another version of the agent, or another
// module. A replay is a job that any server executes in the background, run by run, with the recorded
// answers of models and tools. The store has its progress, so that another server continues after a
// crash; a run during whose replay two servers have ended gets the outcome failed.
package replays
