package sdk

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// ABI.md shows every message that crosses into a module, field by field, as the
// .proto files have it, and every export that a module of this package has.
func TestABIShowsTheContract(t *testing.T) {
	data, err := os.ReadFile("ABI.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	blocks := regexp.MustCompile("(?s)```proto (\\S+)\n(.*?)```").FindAllStringSubmatch(page, -1)
	if len(blocks) != 2 {
		t.Fatalf("%d blocks of messages", len(blocks))
	}
	for _, block := range blocks {
		proto, err := os.ReadFile(filepath.Join("contract", "v1", block[1]))
		if err != nil {
			t.Fatal(err)
		}
		want := definitions(string(proto))
		got := definitions(block[2])
		for name, text := range got {
			if want[name] != text {
				t.Errorf("%s: %s is\n%s\nin ABI.md and\n%s\nin the contract", block[1], name, text, want[name])
			}
		}
		for name := range want {
			processes := regexp.MustCompile(`^(Apply|Filter|Score|Normalize|Evaluate).*(Request|Response)$|^(ReasonSet|Question|FilterAnswer|ScoreAnswer)$`)
			if got[name] == "" && !processes.MatchString(name) {
				t.Errorf("%s: ABI.md does not show %s", block[1], name)
			}
		}
	}
	source, err := os.ReadFile("serve_wasip1.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`//go:wasmexport (\S+)`).FindAllStringSubmatch(string(source), -1) {
		if !strings.Contains(page, "`"+m[1]+"`") {
			t.Errorf("ABI.md does not tell of %s", m[1])
		}
	}
	for name := range contractv1.Point_value {
		if name != "POINT_UNSPECIFIED" && !strings.Contains(page, name) {
			t.Errorf("ABI.md does not tell of %s", name)
		}
	}
	for _, kind := range CycleKinds() {
		if !strings.Contains(page, "`"+kind+"`") {
			t.Errorf("ABI.md does not tell of kind %s", kind)
		}
	}
}

// The delta that ABI.md shows byte by byte is what a host sends.
func TestABIShowsADelta(t *testing.T) {
	data, err := os.ReadFile("ABI.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```text delta\n(.*?)```").FindSubmatch(data)
	if block == nil {
		t.Fatal("ABI.md shows no delta")
	}
	var got []byte
	for _, line := range strings.Split(string(block[1]), "\n") {
		digits, _, _ := strings.Cut(strings.TrimSpace(line), "  ") // what it means stands behind
		b, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		got = append(got, b...)
	}
	want, err := proto.Marshal(&contractv1.Delta{Generation: 1, Reset_: true, Operations: []*contractv1.Operation{
		{Op: &contractv1.Operation_NodeSet{NodeSet: &contractv1.NodeSet{Node: &contractv1.Node{
			Name: "n1", Labels: map[string]string{"tier.shop.io": "gold"}, Allocatable: &contractv1.Resources{Pods: 110}}}}},
		{Op: &contractv1.Operation_ClassSet{ClassSet: &contractv1.ClassSet{Class: 5, Pod: &contractv1.Pod{Namespace: "default"}}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) || !strings.Contains(string(data), fmt.Sprintf("these %d bytes", len(want))) {
		t.Errorf("ABI.md shows %x, a host sends %x (%d bytes)", got, want, len(want))
	}
}

// definitions are the messages and enums of a text in one line each, without comments.
func definitions(text string) map[string]string {
	text = regexp.MustCompile(`//[^\n]*`).ReplaceAllString(text, "")
	text = strings.Join(strings.Fields(text), " ")
	found := map[string]string{}
	for _, at := range regexp.MustCompile(`(?:message|enum) (\w+) \{`).FindAllStringSubmatchIndex(text, -1) {
		depth := 0
		for i := at[0]; i < len(text); i++ {
			if text[i] == '{' {
				depth++
			} else if text[i] == '}' {
				if depth--; depth == 0 {
					found[text[at[2]:at[3]]] = text[at[0] : i+1]
					break
				}
			}
		}
	}
	return found
}
