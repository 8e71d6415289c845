package spawner

// An order is the message that a spawner reads from its standard input when it starts. The server
// sends it before it accepts any connection, so it is trusted.
type order struct {
	Programs []program
}

// A program is a command that the spawner may start, with all paths and variables resolved.
type program struct {
	Path    string
	Args    []string
	Dir     string
	Env     []string
	Read    []string
	Write   []string
	Connect []uint16

	Unconfined bool
}

// The operations of a request.
const (
	opStart     = "start"
	opTerminate = "terminate"
	opKill      = "kill"
)

// A request is one packet from the server. A start request carries the standard streams of
// the command, three descriptors; others carry none. Its sender may be hostile.
type request struct {
	Op      string
	ID      uint64 // the sender's number for the process
	Program int    // for opStart: an index into order.Programs
}

// A reply is one packet from the spawner. The spawner answers a start request with a reply that has
// Started or Error. If it started the process, it sends another reply with Ended later.
type reply struct {
	ID      uint64
	Started bool
	Ended   bool
	PID     int
	Error   string // why it was not started, or how it ended if not with exit status 0
}

const (
	maxPacket    = 4 << 10
	maxProcesses = 256 // for one spawner at a time
	streams      = 3   // descriptors of a start request
)
