package child

const (
	// childArg is the only argument of a child, so that children can be recognized in a list of processes. childEnv
	// is the environment variable that marks a process as a child.
	childArg = "compile-module"
	childEnv = "AGENT_RUNNER_COMPILE_CHILD"
)

// Exit codes of a child. The Go runtime uses 2.
const (
	exitInvalid   = 3 // the module is not valid, or the job failed
	exitNoDisk    = 4 // the machine code cannot be written
	exitNoMemory  = 5 // the memory limit was exceeded
	exitNoHandler = 6 // the program has no handler for the job
	exitNoJail    = 7 // the limits or the confinement could not be set
)

// request is the header of a child's input, in little endian. The path of the directory
// that a job can read follows, and then the module or the job's input.
type request struct {
	Magic       [4]byte
	InputBytes  uint32
	PathBytes   uint32
	Job         [16]byte // all zeros to compile
	MemoryBytes uint64
	CPUSeconds  uint64
}

var requestMagic = [4]byte{'c', 'h', 'd', '3'}
