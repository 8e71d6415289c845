package module

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/module/extism"
	"github.com/agent-runner/agent-runner/internal/module/invoke"
	"github.com/agent-runner/agent-runner/internal/module/plain"
	"github.com/agent-runner/agent-runner/internal/module/script"
	"github.com/agent-runner/agent-runner/internal/sandbox"
	"github.com/agent-runner/agent-runner/internal/sandbox/verify"
)

// imports returns the functions that modules may import, of all transports.
func imports() []invoke.Import {
	return slices.Concat(plain.Imports(), extism.Imports(), []invoke.Import{script.Import()})
}

// surface returns the functions that modules may import, and the check of the modules' exports.
func surface() sandbox.Surface {
	s := sandbox.Surface{Name: "ABI version 1", Exports: checkHooks}
	for _, i := range imports() {
		s.Imports = append(s.Imports, i.Import)
	}
	return s
}

// checkHooks returns a function that checks that a module's hooks have the type for its transport.
// The module's imports determine the transport. If they belong to two transports, checkHooks
// returns a *verify.RefusedError.
func checkHooks(imports []verify.ImportInfo) (verify.CheckExport, error) {
	want := plain.HookType
	switch isExtism, isNative := importsOf(imports); {
	case isExtism && isNative:
		return nil, &verify.RefusedError{
			Reason: fmt.Sprintf("imports %s and Extism's functions; a module must use one or the other", contract.ImportModule),
			Fix:    fmt.Sprintf("an Extism plug-in makes the host calls of the ABI through %s", extism.UserModule),
		}
	case isExtism:
		want = extism.HookType
	}
	return func(name string) (verify.FuncType, bool) { return want, contract.Known(abi.Hook(name)) }, nil
}

// importsOf reports whether a module has imports of Extism, and whether it has native imports.
func importsOf(imports []verify.ImportInfo) (isExtism, isNative bool) {
	for _, imp := range imports {
		isExtism = isExtism || strings.HasPrefix(imp.Module, extism.ModulePrefix)
		isNative = isNative || imp.Module == contract.ImportModule
	}
	return isExtism, isNative
}
