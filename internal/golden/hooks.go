package golden

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
)

// hooksOf returns the hooks that the type Middleware in a module's source has as methods, sorted.
func hooksOf(file string, source []byte) ([]abi.Hook, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var out []abi.Hook
	for _, d := range parsed.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv == nil || !f.Name.IsExported() || f.Name.Name == "Configure" {
			continue
		}
		recv := f.Recv.List[0].Type
		if p, ok := recv.(*ast.StarExpr); ok {
			recv = p.X
		}
		if id, ok := recv.(*ast.Ident); ok && id.Name == "Middleware" {
			out = append(out, abi.Hook(snake(f.Name.Name)))
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s has no type Middleware with a hook", file)
	}
	slices.Sort(out)
	return out, nil
}

func snake(s string) string {
	var b strings.Builder
	for i, c := range s {
		if c >= 'A' && c <= 'Z' {
			if i > 0 {
				b.WriteByte('_')
			}
			c += 'a' - 'A'
		}
		b.WriteRune(c)
	}
	return b.String()
}
