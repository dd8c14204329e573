package config

import (
	"reflect"
	"strconv"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

const (
	// maxNodes bounds what aliases can blow a small file up to.
	maxNodes = 20_000
	// maxMerges bounds merge keys that lead into merge keys.
	maxMerges = 8
)

// decoder binds the tree of one file to the configuration, over what weaker
// layers left there. Every problem is collected, none stops it.
type decoder struct {
	problems

	file    string
	config  *Config
	anchors map[string]*ast.AnchorNode
	nodes   int
	merges  int
}

// decode binds one file.
func decode(c *Config, file string, body ast.Node) error {
	d := &decoder{file: file, config: c, anchors: map[string]*ast.AnchorNode{}}
	if body != nil {
		ast.Walk(anchorFinder{d}, body)
		d.value(reflect.ValueOf(c).Elem(), body, "")
	}
	return d.err()
}

// anchorFinder collects the anchors of a document before it is bound.
type anchorFinder struct{ d *decoder }

// Visit implements ast.Visitor.
func (f anchorFinder) Visit(n ast.Node) ast.Visitor {
	if a, ok := n.(*ast.AnchorNode); ok && a.Name != nil {
		name := a.Name.GetToken().Value
		if f.d.anchors[name] != nil {
			f.d.fail(a, "", "the anchor &"+name+" is defined twice")
		}
		f.d.anchors[name] = a
	}
	return f
}

func (d *decoder) fail(n ast.Node, key, message string) {
	d.add(at(d.file, firstToken(n), key, message))
}

func (d *decoder) mark(key string, t *token.Token) {
	o := Origin{Kind: OriginFile, Name: d.file}
	if t != nil && t.Position != nil {
		o.Line, o.Column = t.Position.Line, t.Position.Column
	}
	d.config.origins[key] = o
}

// resolve follows anchors and aliases to the value itself; nil if that failed.
func (d *decoder) resolve(n ast.Node, key string) ast.Node {
	if d.nodes++; d.nodes > maxNodes {
		if d.nodes == maxNodes+1 {
			d.fail(n, key, "the file holds too many values, counting each use of an alias")
		}
		return nil
	}
	for range 4 {
		switch x := n.(type) {
		case *ast.AnchorNode:
			n = x.Value
		case *ast.AliasNode:
			name := x.Value.GetToken().Value
			a := d.anchors[name]
			if a == nil || a.GetToken().Position.Offset > x.GetToken().Position.Offset {
				d.fail(x, key, "the alias *"+name+" has no anchor &"+name+" before it")
				return nil
			}
			n = a.Value
		case *ast.TagNode:
			d.fail(x, key, "tags such as "+x.Start.Value+" are not supported; remove it")
			return nil
		default:
			return n
		}
	}
	d.fail(n, key, "aliases lead in a circle")
	return nil
}

// value binds n to v, whose type decides what n must be.
func (d *decoder) value(v reflect.Value, n ast.Node, key string) {
	n = d.resolve(n, key)
	if n == nil {
		return
	}
	switch dst := v.Addr().Interface().(type) {
	case *[]string:
		if list, ok := d.list(n, key); ok {
			*dst = d.strings(list, key)
		}
	case *[]Probe:
		if list, ok := d.list(n, key); ok {
			*dst = d.probes(list, key)
		}
	case *map[string]string:
		d.environment(dst, n, key)
	case *map[string]Slot:
		d.slots(dst, n, key)
	default:
		if v.Kind() == reflect.Struct {
			d.structure(v, n, key)
			return
		}
		d.scalar(v, n, key)
	}
}

// structure binds a mapping to the fields of a struct.
func (d *decoder) structure(v reflect.Value, n ast.Node, key string) {
	d.mapping(n, key, func(name string, k, value ast.Node) {
		field, ok := fieldByKey(v.Type(), name)
		if !ok {
			d.fail(k, join(key, name), unknownKey(v.Type(), name))
			return
		}
		if d.null(value) && v.Field(field).Kind() != reflect.Struct && v.Field(field).Kind() != reflect.Map {
			d.fail(k, join(key, name), "has no value; write one or remove the key")
			return
		}
		d.value(v.Field(field), value, join(key, name))
	})
}

// environment binds a mapping of names to text.
func (d *decoder) environment(dst *map[string]string, n ast.Node, key string) {
	if *dst == nil {
		*dst = map[string]string{}
	}
	d.mapping(n, key, func(name string, k, value ast.Node) {
		full := join(key, name)
		if value = d.resolve(value, full); value == nil {
			return
		}
		if text, ok := d.anyText(value, full); ok {
			(*dst)[name] = text
			d.mark(full, firstToken(value))
		}
	})
}

// slots binds the mapping of slot names to slots.
func (d *decoder) slots(dst *map[string]Slot, n ast.Node, key string) {
	if *dst == nil {
		*dst = map[string]Slot{}
	}
	d.mapping(n, key, func(name string, k, value ast.Node) {
		full := join(key, name)
		if msg := slotNameFault(name); msg != "" {
			d.fail(k, full, msg)
			return
		}
		d.mark(full, k.GetToken())
		s := (*dst)[name]
		d.value(reflect.ValueOf(&s).Elem(), value, full)
		(*dst)[name] = s
	})
}

// mapping calls member for each key of n, merged mappings first, so that what
// is written out wins. A null counts as an empty mapping: that is what is left
// when every line below a key is commented out.
func (d *decoder) mapping(n ast.Node, key string, member func(name string, key, value ast.Node)) {
	values, ok := pairs(n)
	if !ok {
		if !d.null(n) {
			d.fail(n, key, "must be a mapping (KEY: VALUE), not "+kindOf(n))
		}
		return
	}
	for _, kv := range values {
		if _, ok := kv.Key.(*ast.MergeKeyNode); ok {
			d.merge(kv.Value, key, member)
		}
	}
	seen := map[string]*token.Token{}
	for _, kv := range values {
		t := kv.Key.GetToken()
		name := t.Value
		if first := seen[name]; first != nil {
			p := first.Position
			d.add(at(d.file, t, join(key, name), "is given twice, first at "+strconv.Itoa(p.Line)+":"+strconv.Itoa(p.Column)))
			continue
		}
		switch kv.Key.(type) {
		case *ast.MergeKeyNode:
			seen[name] = t
		case *ast.StringNode:
			seen[name] = t
			if msg := textFault(name); msg != "" {
				d.fail(kv.Key, join(key, name), msg)
				continue
			}
			member(name, kv.Key, kv.Value)
		default:
			d.fail(kv.Key, key, "a key must be plain text")
		}
	}
}

// merge handles the value of "<<": a mapping or a list of them, of which the
// first to have a key wins.
func (d *decoder) merge(n ast.Node, key string, member func(name string, key, value ast.Node)) {
	if d.merges++; d.merges > maxMerges {
		d.fail(n, key, "merge keys (<<) are nested too deeply")
		return
	}
	defer func() { d.merges-- }()
	n = d.resolve(n, key)
	if n == nil {
		return
	}
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		d.mapping(n, key, member)
		return
	}
	for i := len(list.Values) - 1; i >= 0; i-- {
		if m := d.resolve(list.Values[i], key); m != nil {
			d.mapping(m, key, member)
		}
	}
}

// pairs returns the members of a mapping node.
func pairs(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	default:
		return nil, false
	}
}

// list returns the items of a sequence and marks its origin; what was known of
// the items of a weaker layer is dropped with them.
func (d *decoder) list(n ast.Node, key string) ([]ast.Node, bool) {
	s, ok := n.(*ast.SequenceNode)
	if !ok {
		d.fail(n, key, "must be a list ([A, B]), not "+kindOf(n))
		return nil, false
	}
	d.config.forget(key)
	d.mark(key, firstToken(n))
	return s.Values, true
}

func (d *decoder) strings(items []ast.Node, key string) []string {
	out := make([]string, 0, len(items))
	for i, n := range items {
		full := key + "[" + strconv.Itoa(i) + "]"
		if n = d.resolve(n, full); n == nil {
			continue
		}
		d.mark(full, firstToken(n))
		if text, ok := d.anyText(n, full); ok {
			out = append(out, text)
		}
	}
	return out
}

func (d *decoder) probes(items []ast.Node, key string) []Probe {
	out := make([]Probe, len(items))
	for i, n := range items {
		full := key + "[" + strconv.Itoa(i) + "]"
		d.mark(full, firstToken(n))
		d.value(reflect.ValueOf(&out[i]).Elem(), n, full)
	}
	return out
}

// scalar binds a single value and marks its origin.
func (d *decoder) scalar(v reflect.Value, n ast.Node, key string) {
	var text string
	switch v.Addr().Interface().(type) {
	case *int, *bool, *time.Duration, *Size:
		// A number or a word; setScalar judges the text as it was written.
		t, ok := plainText(n)
		if !ok {
			d.fail(n, key, "must be "+wanted(v)+", not "+kindOf(n))
			return
		}
		text = t
	default:
		t, ok := stringText(n)
		if !ok {
			d.fail(n, key, "must be text, not "+kindOf(n)+"; quote it if it is meant as text")
			return
		}
		text = t
	}
	if msg := setScalar(v, text); msg != "" {
		d.fail(n, key, msg)
		return
	}
	d.mark(key, firstToken(n))
}

// anyText returns the text of any single value exactly as it was written, so
// that a number in a command line or an environment needs no quotes.
func (d *decoder) anyText(n ast.Node, key string) (string, bool) {
	text, ok := plainText(n)
	if !ok {
		d.fail(n, key, "must be text, not "+kindOf(n))
		return "", false
	}
	if msg := textFault(text); msg != "" {
		d.fail(n, key, msg)
		return "", false
	}
	return text, true
}

// null reports whether n, seen through aliases, is an empty value.
func (d *decoder) null(n ast.Node) bool {
	if a, ok := n.(*ast.AnchorNode); ok {
		n = a.Value
	}
	return n.Type() == ast.NullType
}

// plainText returns the source text of a string, number or boolean.
func plainText(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	default:
		return stringText(n)
	}
}

// stringText returns the text of a string.
func stringText(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	default:
		return "", false
	}
}

// kindOf names what a node is, for people.
func kindOf(n ast.Node) string {
	switch n.Type() {
	case ast.MappingType, ast.MappingValueType:
		return "a mapping"
	case ast.SequenceType:
		return "a list"
	case ast.NullType:
		return "an empty value"
	case ast.BoolType:
		return "a boolean"
	case ast.IntegerType, ast.FloatType, ast.InfinityType, ast.NanType:
		return "a number"
	default:
		return "text"
	}
}

func join(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}
