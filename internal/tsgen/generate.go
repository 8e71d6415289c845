package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/agent-runner/agent-runner/internal/contract"
)

// written has the declarations of types that are not Go structs, or whose JSON differs from
// their fields.
var written = map[string]string{
	"Content": "export type Content = string | null | readonly Part[];",
	"Params":  "export type Params = Readonly<Record<string, unknown>>;",
	"List": `export interface Messages {
	readonly length: number;
	readonly revision: number;
	/** Returns the message at an index. Negative indices count from the end. Messages are frozen; copy one to
	 * change it. */
	at(index: number): Message | undefined;
	slice(from?: number, to?: number): Message[];
	/** Returns the index of the first message that changed since an earlier revision: the length if nothing
	 * changed, 0 if the revision is unknown. */
	changedSince(revision: number): number;
	[Symbol.iterator](): IterableIterator<Message>;
	findLast(test: (message: Message, index: number) => boolean): Message | undefined;
	findLastIndex(test: (message: Message, index: number) => boolean): number;

	// The methods below return patches for an answer's field messages.

	append(...messages: Message[]): MessagesPatch;
	insert(at: number, ...messages: Message[]): MessagesPatch;
	set(at: number, ...messages: Message[]): MessagesPatch;
	remove(at: number, count?: number): MessagesPatch;
	/** Replaces messages. change returns the message or undefined to keep it, another message, several messages,
	 * or null to remove it. */
	rewrite(
		change: (message: Message, index: number) => Message | readonly Message[] | null | undefined | void,
	): MessagesPatch | undefined;
}`,
	"ListPatch":  "export type MessagesPatch = Messages | readonly Message[] | { readonly splice: readonly Splice[] };",
	"ToolsPatch": "export type ToolsPatch = readonly Tool[] | { readonly add?: readonly Tool[]; readonly remove?: readonly string[] };",
	"Chunk": `export type Chunk = { readonly seq?: number } & (
	| { readonly kind: "text" | "reasoning"; readonly text: string }
	| { readonly kind: "tool_result"; readonly call_id?: string; readonly text: string }
	| { readonly kind: "tool_call"; readonly index: number; readonly id?: string; readonly name?: string; readonly arguments: string }
	| { readonly kind: "part"; readonly call_id?: string; readonly part: Part }
);`,
}

// fields has the types of fields that are more precise than their Go types.
var fields = map[string]string{
	"Message.Role":              union("system", "developer", "user", "assistant", "tool"),
	"GateToolAnswer.Decision":   union("allow", "ask", "deny", "stop"),
	"ToolCall.Type":             union("function"),
	"BeforeAgentAnswer.Respond": "Message",
	"BeforeModelAnswer.Request": "RequestPatch",
	"AfterAgentInput.FinishReason": union(
		"stop",
		"return_directly",
		"transfer",
		"stopped",
		"canceled",
		"timeout",
		"max_steps",
		"limit",
		"error",
	),
}

// optional lists the fields that scripts can omit although Go always encodes them.
var optional = []string{"Message.Content", "ToolCall.Type"}

func union(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = strconv.Quote(w)
	}
	return strings.Join(quoted, " | ")
}

// renamed has the TypeScript names of types whose names are already in use.
var renamed = map[string]string{
	"Error":     "Failure",
	"Request":   "ModelRequest",
	"Response":  "ModelResponse",
	"List":      "Messages",
	"ListPatch": "MessagesPatch",
}

func nameOf(name string) string {
	if other, ok := renamed[name]; ok {
		return other
	}
	return name
}

type generator struct {
	types map[string]*ast.GenDecl // by name
	done  map[string]string
}

// generate parses the packages in dirs and returns the declarations.
func generate(dirs ...string) (string, error) {
	var files []string
	for _, dir := range dirs {
		found, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(found) == 0 {
			return "", fmt.Errorf("no Go package in %s", dir)
		}
		files = append(files, found...)
	}
	g := &generator{types: map[string]*ast.GenDecl{}, done: map[string]string{}}
	fset := token.NewFileSet()
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			return "", err
		}
		for _, d := range file.Decls {
			if decl, ok := d.(*ast.GenDecl); ok && decl.Tok == token.TYPE {
				for _, s := range decl.Specs {
					g.types[s.(*ast.TypeSpec).Name.Name] = decl
				}
			}
		}
	}
	var hooks strings.Builder
	for _, h := range contract.Hooks() {
		if h == contract.HookDescribe {
			continue // replaced by fields of defineMiddleware
		}
		input, answer := pascal(string(h))+"Input", pascal(string(h))+"Answer"
		if strings.HasPrefix(string(h), "translate_") {
			input, answer = "TranslateInput", "TranslateAnswer"
		}
		if g.types[input] == nil || g.types[answer] == nil {
			return "", fmt.Errorf("packages abi and contract have no %s or %s", input, answer)
		}
		fmt.Fprintf(&hooks, "\t%s: { input: %s; answer: %s };\n", camel(string(h)), g.ref(input), g.ref(answer))
	}
	for _, name := range []string{"Description", "Event", "CallPatch", "RequestPatch", "HTTPRequest", "HTTPResponse"} {
		g.ref(name)
	}
	var b strings.Builder
	b.WriteString("// Code generated by internal/tsgen from package abi; DO NOT EDIT.\n\n")
	fmt.Fprintf(
		&b,
		"/** The input and answer types of the hooks. All fields of an answer are optional. */\nexport interface HookTypes {\n%s}\n",
		hooks.String(),
	)
	for _, name := range slices.Sorted(maps.Keys(g.done)) {
		b.WriteString("\n" + g.done[name] + "\n")
	}
	return b.String(), nil
}

var underscore = regexp.MustCompile(`_[a-z]`)

func camel(name string) string {
	return underscore.ReplaceAllStringFunc(name, func(s string) string { return strings.ToUpper(s[1:]) })
}

func pascal(name string) string { return strings.ToUpper(name[:1]) + camel(name)[1:] }

// ref declares a type if necessary and returns its name.
func (g *generator) ref(name string) string {
	decl := g.types[name]
	if decl == nil {
		return "unknown"
	}
	if _, ok := g.done[name]; ok {
		return nameOf(name)
	}
	g.done[name] = "" // types can be recursive
	var spec *ast.TypeSpec
	for _, s := range decl.Specs {
		if t := s.(*ast.TypeSpec); t.Name.Name == name {
			spec = t
		}
	}
	doc := decl.Doc
	if spec.Doc != nil {
		doc = spec.Doc
	}
	text, known := written[name]
	switch t := spec.Type.(type) {
	case *ast.StructType:
		if !known {
			text = g.structure(name, t)
		} else {
			for _, other := range []string{"Part", "Message", "Splice", "Tool"} {
				if strings.Contains(text, other) {
					g.ref(other)
				}
			}
		}
	default:
		if !known {
			text = fmt.Sprintf("export type %s = %s;", nameOf(name), g.named(name, t))
		}
	}
	g.done[name] = comment("", "", doc, "") + text
	return nameOf(name)
}

// named returns the declaration of a type that is not a struct. Enumerations become unions of their values.
func (g *generator) named(name string, t ast.Expr) string {
	switch name {
	case "Hook":
		return words(contract.Hooks())
	case "EventType":
		return words(contract.EventTypes())
	case "Code":
		return words(contract.Codes())
	default:
		return g.typeOf(t)
	}
}

func words[T ~string](all []T) string {
	texts := make([]string, len(all))
	for i, w := range all {
		texts[i] = string(w)
	}
	return union(texts...)
}

func (g *generator) structure(name string, t *ast.StructType) string {
	var extends []string
	var b strings.Builder
	for _, f := range t.Fields.List {
		if len(f.Names) == 0 {
			extends = append(extends, g.ref(f.Type.(*ast.Ident).Name))
			continue
		}
		tag := ""
		if f.Tag != nil {
			text, _ := strconv.Unquote(f.Tag.Value)
			tag = reflect.StructTag(text).Get("json")
		}
		key, rest, _ := strings.Cut(tag, ",")
		if key == "-" || key == "" || !f.Names[0].IsExported() {
			continue
		}
		path := name + "." + f.Names[0].Name
		mark := ""
		if strings.Contains(rest, "omit") || slices.Contains(optional, path) {
			mark = "?"
		}
		kind := g.typeOf(f.Type)
		if own, ok := fields[path]; ok {
			kind = own
		}
		doc := f.Doc
		if doc == nil {
			doc = f.Comment
		}
		fmt.Fprintf(&b, "%s\treadonly %s%s: %s;\n", comment(f.Names[0].Name, key, doc, "\t"), key, mark, kind)
	}
	head := "export interface " + nameOf(name)
	if len(extends) > 0 {
		head += " extends " + strings.Join(extends, ", ")
	}
	return head + " {\n" + b.String() + "}"
}

func (g *generator) typeOf(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.SelectorExpr: // a type of package abi in package contract
		return g.typeOf(t.Sel)
	case *ast.Ident:
		switch t.Name {
		case "JSON":
			return "unknown"
		case "string":
			return "string"
		case "bool":
			return "boolean"
		case "int", "int32", "int64", "uint64", "float64":
			return "number"
		default:
			return g.ref(t.Name)
		}
	case *ast.StarExpr:
		return g.typeOf(t.X)
	case *ast.ArrayType:
		of := g.typeOf(t.Elt)
		if strings.Contains(of, " ") {
			of = "(" + of + ")"
		}
		return "readonly " + of + "[]"
	case *ast.MapType:
		return "Readonly<Record<string, " + g.typeOf(t.Value) + ">>"
	default:
		panic(fmt.Sprintf("unsupported field type %T", t))
	}
}

var link = regexp.MustCompile(`\[([A-Za-z.]+)\]`)

// comment converts a Go comment to a TypeScript one. A leading Go name becomes the JSON key.
func comment(name, key string, doc *ast.CommentGroup, indent string) string {
	if doc == nil {
		return ""
	}
	text := link.ReplaceAllString(strings.Join(strings.Fields(doc.Text()), " "), "$1")
	if text == "" {
		return ""
	}
	if rest, ok := strings.CutPrefix(text, name+" "); ok && name != "" {
		text = key + " " + rest
	}
	return indent + "/** " + strings.ReplaceAll(text, "*/", "* /") + " */\n"
}
