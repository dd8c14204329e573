package config

import (
	"bytes"
	"errors"
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

const (
	// maxFileSize is far above any configuration and small enough that the
	// parser's quadratic corners do not matter.
	maxFileSize = 64 << 10
	// maxNesting bounds lists and mappings within each other on one line: the
	// schema needs a handful, and the parser most of a minute for 64 KiB of
	// nothing but brackets.
	maxNesting = 16
)

// parse turns one file into the syntax tree of its only document; nil if the
// file holds no value. Errors carry the file and the position.
func parse(file string, data []byte) (body ast.Node, err error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if err := checkText(file, data); err != nil {
		return nil, err
	}
	// The parser is not ours; what it cannot bear is still only a bad file.
	defer func() {
		if r := recover(); r != nil {
			body, err = nil, &Error{File: file, Message: fmt.Sprintf("cannot be parsed as YAML (%v)", r)}
		}
	}()
	tokens := lexer.Tokenize(string(data))
	if t := tooDeep(tokens); t != nil {
		return nil, at(file, t, "", "nested too deeply")
	}
	// Duplicate keys are found while binding, where the full key is known.
	tree, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, syntaxError(file, err)
	}
	return onlyDocument(file, tree)
}

// checkText refuses what is no text: it would reach logs, unit files and the
// engine, and YAML does not allow most of it anyway.
func checkText(file string, data []byte) error {
	line, column := 1, 1
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			return &Error{File: file, Line: line, Column: column, Message: fmt.Sprintf("not valid UTF-8 (byte 0x%02x)", data[i])}
		case r == '\r' && i+1 < len(data) && data[i+1] == '\n', r == '\t':
		case r == '\n':
			line, column = line+1, 0
		case unicode.IsControl(r):
			return &Error{File: file, Line: line, Column: column, Message: fmt.Sprintf("control character U+%04X is not allowed", r)}
		}
		i += n
		column++
	}
	return nil
}

// tooDeep returns the token at which brackets, or dashes on one line, are
// nested too deeply.
func tooDeep(tokens token.Tokens) *token.Token {
	depth, line, dashes := 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			line, dashes = t.Position.Line, 0
		}
		switch t.Type {
		case token.SequenceEntryType:
			dashes++
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth--
		}
		if max(depth, dashes) > maxNesting {
			return t
		}
	}
	return nil
}

func onlyDocument(file string, tree *ast.File) (ast.Node, error) {
	for i, doc := range tree.Docs {
		if d, ok := doc.Body.(*ast.DirectiveNode); ok {
			return nil, at(file, d.GetToken(), "", "YAML directives are not supported; remove the line")
		}
		if i == 0 {
			continue
		}
		t := doc.Start
		if t == nil && doc.Body != nil {
			t = firstToken(doc.Body)
		}
		return nil, at(file, t, "", "a second YAML document begins here; only one is read, so join them")
	}
	if len(tree.Docs) == 0 {
		return nil, nil
	}
	return tree.Docs[0].Body, nil
}

// syntaxError takes message and position out of the parser's error, whose own
// text spans several lines.
func syntaxError(file string, err error) error {
	var ye yaml.Error
	if !errors.As(err, &ye) {
		return &Error{File: file, Message: "cannot be parsed as YAML", Err: err}
	}
	return at(file, ye.GetToken(), "", ye.GetMessage())
}

// at makes an error that points at a token, which may be nil.
func at(file string, t *token.Token, key, message string) *Error {
	e := &Error{File: file, Key: key, Message: message}
	if t != nil && t.Position != nil {
		e.Line, e.Column = t.Position.Line, t.Position.Column
	}
	return e
}

// firstToken returns the token where a person would say that the node begins:
// for a mapping in block style that is its first key, not its first colon.
func firstToken(n ast.Node) *token.Token {
	switch n := n.(type) {
	case *ast.MappingNode:
		if len(n.Values) > 0 && n.Start != nil && n.Start.Type != token.MappingStartType {
			return firstToken(n.Values[0])
		}
	case *ast.MappingValueNode:
		return n.Key.GetToken()
	}
	return n.GetToken()
}
