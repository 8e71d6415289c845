package jail

import (
	"fmt"
	"os"
	"runtime"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

func support() Report {
	abi, err := ll.LandlockGetABIVersion()
	if err != nil {
		abi = 0
	}
	return Report{LandlockABI: abi, Seccomp: seccomp.Supported()}
}

func (p Profile) enforce() (Report, error) {
	report := support()
	if p.NoLandlock {
		report.LandlockABI = 0
	}
	if report.LandlockABI > 0 {
		if err := p.restrictFiles(report.LandlockABI); err != nil {
			return report, fmt.Errorf("jail: Landlock: %w", err)
		}
	}
	if p.Syscalls == nil {
		report.Seccomp = false
	}
	if report.Seccomp {
		// A filter can be loaded only by a thread with the no_new_privs bit. Only the first
		// filter sets the bit, because that filter may deny prctl afterwards.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for i, policy := range p.Syscalls.policies {
			filter := seccomp.Filter{NoNewPrivs: i == 0, Flag: seccomp.FilterFlagTSync, Policy: policy}
			if err := seccomp.LoadFilter(filter); err != nil {
				return report, fmt.Errorf("jail: seccomp: %w", err)
			}
		}
	}
	return report, nil
}

// Access rights to files and directories.
const (
	readFile    landlock.AccessFSSet = ll.AccessFSReadFile
	readDir     landlock.AccessFSSet = readFile | ll.AccessFSReadDir
	listDir     landlock.AccessFSSet = ll.AccessFSReadDir
	executeFile landlock.AccessFSSet = readFile | ll.AccessFSExecute
	executeDir  landlock.AccessFSSet = readDir | ll.AccessFSExecute
	writeFile   landlock.AccessFSSet = readFile | ll.AccessFSWriteFile | ll.AccessFSTruncate
	writeDir    landlock.AccessFSSet = writeFile | readDir | ll.AccessFSRemoveDir | ll.AccessFSRemoveFile |
		ll.AccessFSMakeDir | ll.AccessFSMakeReg | ll.AccessFSMakeSock | ll.AccessFSMakeFifo | ll.AccessFSMakeSym
)

// restrictFiles enforces a Landlock ruleset for files, ports and signals.
func (p Profile) restrictFiles(abi int) error {
	config := landlock.V11
	var rules []landlock.Rule
	for _, grant := range []struct {
		paths     []string
		file, dir landlock.AccessFSSet
		optional  bool
	}{
		{p.Read, readFile, readDir, true},
		{p.List, listDir, listDir, true},
		{p.Execute, executeFile, executeDir, true},
		{p.Write, writeFile, writeDir, false},
	} {
		for _, path := range grant.paths {
			info, err := os.Stat(path)
			switch {
			case os.IsNotExist(err) && grant.optional:
				continue
			case err != nil:
				return err
			}
			rights := grant.file
			if info.IsDir() {
				rights = grant.dir
			}
			rule := landlock.PathAccess(rights, path)
			if !grant.optional && abi >= 2 && info.IsDir() {
				rule = rule.WithRefer() // renames between directories; ABI 1 denies them all
			}
			if !grant.optional && abi >= 9 {
				rule = rule.WithResolveUnix()
			}
			rules = append(rules, rule)
		}
	}
	for _, path := range p.Sockets {
		if _, err := os.Stat(path); err == nil && abi >= 9 {
			rules = append(rules, landlock.PathAccess(ll.AccessFSResolveUnix, path))
		}
	}
	for _, port := range p.BindTCP {
		rules = append(rules, landlock.BindTCP(port))
	}
	for _, port := range p.ConnectTCP {
		rules = append(rules, landlock.ConnectTCP(port))
	}
	if p.AnyBindTCP {
		config.HandledAccessNet &^= ll.AccessNetBindTCP
	}
	if p.AnyConnectTCP {
		config.HandledAccessNet &^= ll.AccessNetConnectTCP
	}
	if p.AnyUDP {
		config.HandledAccessNet &^= ll.AccessNetBindUDP | ll.AccessNetConnectSendUDP
	}
	if p.AnyProcess {
		config.Scoped = 0
	}
	return config.BestEffort().Restrict(rules...)
}
