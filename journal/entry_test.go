package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// mustStore encodes e and reads it back.
func mustStore(t rapid.TB, e Entry) (stored []byte, back Entry) {
	t.Helper()
	e.V, e.Seq, e.Slot = EntryVersion, max(e.Seq, 1), "kube1"
	stored, err := encodeEntry(&e)
	if err != nil {
		t.Fatal(err)
	}
	if len(stored) > maxEntry {
		t.Errorf("it takes %d bytes, at most %d are allowed", len(stored), maxEntry)
	}
	back, err = decodeEntry("kube1", entryKey(e.Seq), stored)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(e, back); diff != "" {
		t.Errorf("the writer is told something else than the reader (-writer +reader):\n%s", diff)
	}
	return stored, back
}

// What a newer version wrote is kept by an older one, byte for byte.
func TestEntry_UnknownMembers(t *testing.T) {
	const text = `{"v":1,"id":"a","seq":1,"slot":"kube1","kind":"done","time":"2026-12-01T02:05:49.021Z",` +
		`"colour":"blue","deep":{"z": [1,  2.50, "é"],"a":null},"big":12345678901234567890}`
	var e Entry
	if err := e.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	again, err := e.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	for _, member := range []string{`"colour":"blue"`, `"deep":{"z": [1,  2.50, "é"],"a":null}`, `"big":12345678901234567890`} {
		if !bytes.Contains(again, []byte(member)) {
			t.Errorf("%s is lost in %s", member, again)
		}
	}
	var back Entry
	if err := back.UnmarshalJSON(again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(e, back); diff != "" {
		t.Errorf("(-first +second):\n%s", diff)
	}
}

func TestExtra_EveryRecord(t *testing.T) {
	for _, text := range []string{
		`{"state":"Wired","seq":3,"open":{"run":"r","phase":"p","pid":1,"start":2,"boot":"b","deeper":1},"new":[1]}`,
		`{"v":1,"holder":"kube1","epoch":3,"new":{"a":1}}`,
		`{"run":"r","phase":"p","pid":1,"start":2,"boot":"b","new":true}`,
		`{"v":1,"id":"","seq":0,"slot":"","kind":"","time":"0001-01-01T00:00:00Z","new":0}`,
	} {
		for _, v := range []any{new(Head), new(Claim), new(Open), new(Entry)} {
			if json.Unmarshal([]byte(text), v) != nil {
				continue // another record's text
			}
			again, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			var want, got map[string]any
			if err := json.Unmarshal([]byte(text), &want); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(again, &got); err != nil {
				t.Fatal(err)
			}
			for name, member := range want {
				if diff := cmp.Diff(member, got[name]); diff != "" && got[name] != nil {
					t.Errorf("%T: %s (-want +got):\n%s", v, name, diff)
				}
				if _, ok := got[name]; name == "new" && !ok {
					t.Errorf("%T loses %q of %s", v, name, text)
				}
			}
		}
	}
}

func TestExtra_Encode(t *testing.T) {
	claim := Claim{Holder: "kube1", Extra: Extra{"HOLDER": json.RawMessage(`"kube2"`), "b": json.RawMessage(`2`), "a": json.RawMessage(`1`)}}
	text, err := claim.MarshalJSON()
	if want := `{"v":0,"holder":"kube1","epoch":0,"a":1,"b":2}`; err != nil || string(text) != want {
		t.Errorf("got %s (%v), want %s", text, err, want)
	}
	if text, err := (Head{Extra: Extra{"a": json.RawMessage(`1`)}}).MarshalJSON(); err != nil || string(text) != `{"a":1}` {
		t.Errorf("got %s (%v)", text, err)
	}
	claim.Extra = Extra{"a": json.RawMessage(`{`)}
	if _, err := claim.MarshalJSON(); err == nil || !strings.Contains(err.Error(), `"a" is no JSON value`) {
		t.Errorf("got %v", err)
	}
	for _, v := range []json.Unmarshaler{new(Entry), new(Head), new(Open), new(Claim)} {
		for _, text := range []string{`{"v":"one","state":1,"run":1}`, `[]`, `{} {}`} {
			if err := v.UnmarshalJSON([]byte(text)); err == nil {
				t.Errorf("%T takes %s", v, text)
			}
		}
	}
}

func TestEntry_Cut(t *testing.T) {
	long := strings.Repeat("wörds and \"quotes\"\n", 600)
	for _, test := range []struct {
		name   string
		change func(*Entry)
		check  func(*testing.T, Entry)
	}{
		{"error", func(e *Entry) { e.Error = long }, func(t *testing.T, e Entry) {
			wantCut(t, "error", e.Error, long, 2000)
		}},
		{"short texts stay whole", func(e *Entry) { e.Error, e.Detail, e.Cause = "short", long, "interrupted" }, func(t *testing.T, e Entry) {
			wantCut(t, "detail", e.Detail, long, 2000)
			if e.Error != "short" || e.Cause != "interrupted" {
				t.Errorf("got error %q, cause %q", e.Error, e.Cause)
			}
		}},
		{"long texts share", func(e *Entry) {
			e.Error, e.Detail, e.Attrs = long, long+long, map[string]string{"a": long, "b": "short"}
		}, func(t *testing.T, e Entry) {
			wantCut(t, "error", e.Error, long, 700)
			wantCut(t, "detail", e.Detail, long+long, 700)
			wantCut(t, "a", e.Attrs["a"], long, 700)
			if e.Attrs["b"] != "short" {
				t.Errorf("got %q", e.Attrs["b"])
			}
		}},
		{"too many attributes", func(e *Entry) {
			e.Attrs = map[string]string{}
			for n := range 500 {
				e.Attrs[fmt.Sprint("key", n)] = "value"
			}
			e.Error = "short"
		}, func(t *testing.T, e Entry) {
			if diff := cmp.Diff(map[string]string{"cut": "500 attributes"}, e.Attrs); diff != "" || e.Error != "short" {
				t.Errorf("error %q, attributes (-want +got):\n%s", e.Error, diff)
			}
		}},
		{"a long attribute name", func(e *Entry) { e.Attrs = map[string]string{long: "x"} }, func(t *testing.T, e Entry) {
			if e.Attrs["cut"] != "1 attributes" {
				t.Errorf("got %v", e.Attrs)
			}
		}},
		{"control characters", func(e *Entry) { e.Error = strings.Repeat("\x1b[0m", 4000) }, func(t *testing.T, e Entry) {
			wantCut(t, "error", e.Error, strings.Repeat("\x1b[0m", 4000), 900)
		}},
		{"no text at all", func(e *Entry) { e.Error, e.Attrs = "a\xffb", map[string]string{"\xff": "\xfe"} }, func(t *testing.T, e Entry) {
			if e.Error != "a\uFFFDb" || e.Attrs["\uFFFD"] != "\uFFFD" {
				t.Errorf("got %q, %q", e.Error, e.Attrs)
			}
		}},
		{"little room beside unknown members", func(e *Entry) {
			e.Error = long
			e.Extra = Extra{"later": json.RawMessage(`"` + strings.Repeat("x", 3610) + `"`)}
		}, func(t *testing.T, e Entry) {
			if len(e.Error) > minText || len(e.Extra["later"]) != 3612 {
				t.Errorf("%d bytes of error, %d of the unknown member", len(e.Error), len(e.Extra["later"]))
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := anEntry(1)
			test.change(&e)
			attrs := maps.Clone(e.Attrs)
			_, back := mustStore(t, e)
			test.check(t, back)
			if diff := cmp.Diff(attrs, e.Attrs); diff != "" {
				t.Errorf("the caller's map changed:\n%s", diff)
			}
		})
	}
}

// wantCut checks that got is a good part of whole, cut between runes, and says
// how much is missing.
func wantCut(t *testing.T, name, got, whole string, atLeast int) {
	t.Helper()
	kept, mark, ok := strings.Cut(got, "… [")
	var missing int
	if _, err := fmt.Sscanf(mark, "%d bytes cut]", &missing); !ok || err != nil {
		t.Fatalf("%s has no mark: %q", name, got)
	}
	if !strings.HasPrefix(whole, kept) || !utf8.ValidString(kept) || len(kept)+missing != len(whole) || len(kept) < atLeast {
		t.Errorf("%s: kept %d of %d bytes, says %d are missing, want at least %d kept", name, len(kept), len(whole), missing, atLeast)
	}
}

// No text, however long or strange, keeps an entry from being stored.
func TestEntry_CutNeverFails(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.StringN(0, 8000, -1), rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 6000), func(b []byte) string { return string(b) }))
	rapid.Check(t, func(t *rapid.T) {
		e := anEntry(1)
		e.Error, e.Detail, e.Cause = text.Draw(t, "error"), text.Draw(t, "detail"), text.Draw(t, "cause")
		e.Attrs = rapid.MapOfN(rapid.String(), text, 0, 8).Draw(t, "attrs")
		stored, _ := mustStore(t, e)
		if long := len(e.Error) + len(e.Detail) + len(e.Cause); len(e.Attrs) == 0 && long > maxEntry && len(stored) < maxEntry-100 {
			t.Errorf("it was cut to %d bytes, much shorter than needed", len(stored))
		}
	})
}

func TestEntry_Refused(t *testing.T) {
	for name, change := range map[string]func(*Entry){
		"needs an id":                     func(e *Entry) { e.ID = "" },
		"and a kind":                      func(e *Entry) { e.Kind = "" },
		"step has 129 bytes, at most 128": func(e *Entry) { e.Step = strings.Repeat("x", 129) },
		`boot "\xff" is not UTF-8`:        func(e *Entry) { e.Boot = "\xff" },
		"year outside of range":           func(e *Entry) { e.Time = aTime.AddDate(20000, 0, 0) },
		"bytes without any text":          func(e *Entry) { e.Extra = Extra{"x": json.RawMessage(`"` + strings.Repeat("x", 5000) + `"`)} },
	} {
		t.Run(name, func(t *testing.T) {
			j := open(t, Options{})
			err := j.Append(t.Context(), func(tx *Tx) error {
				e := anEntry(1)
				change(&e)
				_, err := tx.Append("kube1", e, nil)
				return err
			})
			wantKind(t, err, KindInvalid, name)
		})
	}
}

// Every single flipped bit of a stored entry is noticed, and so is an entry in
// another place.
func TestEntry_EveryFlip(t *testing.T) {
	stored, _ := mustStore(t, anEntry(1))
	key := entryKey(1)
	for i := range stored {
		for bit := range 8 {
			flipped := bytes.Clone(stored)
			flipped[i] ^= 1 << bit
			if _, err := decodeEntry("kube1", key, flipped); err == nil {
				t.Fatalf("bit %d of byte %d is not noticed", bit, i)
			}
		}
	}
	for i := range stored {
		if _, err := decodeEntry("kube1", key, stored[:i]); err == nil {
			t.Fatalf("cutting it to %d bytes is not noticed", i)
		}
	}
	if _, err := decodeEntry("kube1", entryKey(2), stored); err == nil {
		t.Error("another key is not noticed")
	}
	if _, err := decodeEntry("kube2", key, stored); err == nil {
		t.Error("another slot is not noticed")
	}
	if _, err := decodeEntry("kube1", key[:7], stored); err == nil {
		t.Error("a short key is not noticed")
	}
}

func TestCutEvidence(t *testing.T) {
	whole := bytes.Repeat([]byte("é"), maxEvidence)
	got := cutEvidence(whole)
	if len(got) > maxEvidence || len(got) < maxEvidence-8 {
		t.Errorf("cut to %d bytes", len(got))
	}
	wantCut(t, "evidence", string(got), string(whole), maxEvidence-50)
	if got := cutEvidence(whole[:maxEvidence]); len(got) != maxEvidence {
		t.Errorf("%d bytes are allowed, it was cut to %d", maxEvidence, len(got))
	}
	binary := bytes.Repeat([]byte{0x80}, maxEvidence+1)
	if got := cutEvidence(binary); len(got) > maxEvidence || len(got) < maxEvidence-64 {
		t.Errorf("what is no text was cut to %d bytes", len(got))
	}
}

// Whatever bytes stand in the database, reading them neither fails badly nor
// changes what is written back.
func FuzzDecodeEntry(f *testing.F) {
	stored, _ := mustStore(f, anEntry(1))
	f.Add(stored)
	f.Add(frame(entryKey(1), []byte(`{"v":1,"id":"a","seq":1,"slot":"kube1","kind":"k","time":"2026-12-01T02:05:49Z","later":[1, 2]}`)))
	f.Add(frame(entryKey(1), []byte(`{"V":2,"Seq":1,"SEQ":1,"slot":"kube1","seq ":1}`)))
	f.Add(frame(entryKey(1), []byte(`{"v":2,"seq":"one"}`)))
	f.Add([]byte(`00000000 {}`))
	f.Add([]byte(``))
	f.Fuzz(func(t *testing.T, value []byte) {
		check := func(value []byte) {
			e, err := decodeEntry("kube1", entryKey(1), value)
			if err != nil {
				return
			}
			if e.Seq != 1 || e.Slot != "kube1" {
				t.Errorf("entry %d of %q", e.Seq, e.Slot)
			}
			text, err := e.MarshalJSON()
			if err != nil {
				t.Fatalf("it was read, but cannot be written: %v", err)
			}
			again, err := decodeEntry("kube1", entryKey(1), frame(entryKey(1), text))
			if err != nil {
				t.Fatalf("it was written as %s, but cannot be read: %v", text, err)
			}
			if diff := cmp.Diff(e, again); diff != "" {
				t.Errorf("(-first +second):\n%s", diff)
			}
		}
		check(value)
		// The same as a payload with a good checksum, which chance never finds.
		check(frame(entryKey(1), value))
	})
}
