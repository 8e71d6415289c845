package wasi

import (
	"crypto/rand"
	"crypto/sha256"
	mathrand "math/rand/v2"

	"github.com/agent-runner/agent-runner/internal/sandbox/text"
	"github.com/agent-runner/agent-runner/internal/truncate"
)

// Config configures a process. All fields but Stdout, Stderr and Seed are required.
type Config struct {
	// Stdout and Stderr receive each printed line, without its line end, with control
	// characters and invalid UTF-8 escaped. They may keep the line. Their time does not
	// count as the guest's. If one is nil, its output is dropped.
	Stdout, Stderr func(line []byte)

	// LineFuel is the fuel for a printed line, and ByteFuel for each of its bytes. Output
	// beyond the limits is dropped and free.
	LineFuel, ByteFuel int64

	// LogBytes bounds the output of a call in bytes; each line counts 32 bytes in addition to its
	// length. LogLineBytes bounds one line in bytes.
	LogBytes, LogLineBytes int

	// Seed determines the random bytes. If Seed is nil, they are from the system's random source.
	Seed []byte

	// Clock returns the time in nanoseconds since 1970.
	Clock func() int64
}

// Process is the state of WASI for one instance. The zero value is not usable; see
// [Process.Init] and [Process.Configure].
type Process struct {
	guest  Guest
	config Config

	stdout, stderr lines
	recent         [][]byte // the last lines of both streams
	reason         []byte   // the line of this call that best explains a failure
	gaveUp         bool     // whether reason is the message with which a language runtime ended the program
	printed        int      // bytes printed in this call
	dropped        int      // bytes dropped in this call

	random *mathrand.ChaCha8
	reseed func() []byte // returns the seed; nil if Config.Seed applies
	now    int64         // the time of the guest's clock, without sleep
	slept  int64         // the time that sleeping added, in nanoseconds
}

// Init sets the guest of the process.
func (p *Process) Init(g Guest) { p.guest = g }

// Configure sets the configuration and resets the process.
func (p *Process) Configure(c Config) {
	*p = Process{guest: p.guest, config: c}
	p.stdout = lines{process: p, sink: c.Stdout}
	p.stderr = lines{process: p, sink: c.Stderr}
}

// Begin starts a call: it resets the counts of output and advances the clock.
func (p *Process) Begin() {
	p.printed, p.dropped, p.reason, p.gaveUp = 0, 0, nil, false
	p.Tick()
}

// End ends a call: it emits incomplete lines, and prints to Stderr how much output was dropped.
func (p *Process) End() {
	p.stdout.flush()
	p.stderr.flush()
	p.reportDropped()
}

// Tick sets the guest's clock to the current time.
func (p *Process) Tick() { p.now = max(p.now, p.config.Clock()) }

// Reseed makes seed determine the random bytes from now on. seed is called when the guest next
// requests random bytes.
func (p *Process) Reseed(seed func() []byte) { p.reseed, p.random = seed, nil }

// Dropped returns the number of bytes of the last call that were dropped.
func (p *Process) Dropped() int { return p.dropped }

// Output returns the last lines that the guest printed, at most 16.
func (p *Process) Output() []string {
	output := make([]string, len(p.recent))
	for i, line := range p.recent {
		output[i] = string(line)
	}
	return output
}

// maxReason bounds the stored part of a line passed to Explain, in bytes.
const maxReason = 1 << 10

// Explain stores a line that the guest did not print, but that explains a failure like a printed
// one; see [Process.Reason]. It does not change line.
func (p *Process) Explain(line []byte) { p.explain(text.Escape(truncate.Text(line, maxReason))) }

// Reason returns the line of the current call that best explains a failure: the first with which a language runtime
// ends the program, because its stack trace follows, or otherwise the last line.
func (p *Process) Reason() string { return string(p.reason) }

// draw fills b with random bytes, which the seed determines.
func (p *Process) draw(b []byte) {
	if p.random == nil {
		seed := p.config.Seed
		if p.reseed != nil {
			seed = p.reseed()
		}
		if seed == nil {
			seed = make([]byte, 32)
			_, _ = rand.Read(seed) // never fails
		}
		p.random = mathrand.NewChaCha8(sha256.Sum256(seed))
	}
	_, _ = p.random.Read(b) // never fails
}
