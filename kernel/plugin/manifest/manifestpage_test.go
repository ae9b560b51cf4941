package manifest

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pintle.dev/pintle/sdk/reconciler/protocol"
)

const manifestPage = "../../../sdk/MANIFEST.md"

// sdk/MANIFEST.md has each key of a manifest once, with its type, and no other.
func TestThePageHasEachKey(t *testing.T) {
	data, err := os.ReadFile(manifestPage)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	keysOf(reflect.TypeFor[Manifest](), "", want)
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (\\w+) \\|").FindAllStringSubmatch(string(data), -1) {
		key, kind := row[1], row[2]
		switch {
		case want[key] == "":
			t.Errorf("the page has %s, a manifest does not, or the page has it twice", key)
		case want[key] != kind && (want[key] != "string" || kind != "quantity"):
			t.Errorf("%s is a %s on the page, and a %s", key, kind, want[key])
		}
		delete(want, key)
	}
	for key := range want {
		t.Errorf("the page does not have %s", key)
	}
	// What values are taken.
	values := slices.Concat(pluginKinds, protocol.Operations(), normalizings[1:], []string{OnFailureRefuse, OnFailureIgnore})
	for _, value := range values {
		if !strings.Contains(string(data), "`"+value+"`") {
			t.Errorf("the page does not have the value %s", value)
		}
	}
}

// The manifest that the page shows is one.
func TestThePageShowsAManifest(t *testing.T) {
	data, err := os.ReadFile(manifestPage)
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```yaml manifest\n(.*?)```").FindSubmatch(data)
	if block == nil {
		t.Fatal("the page shows no manifest")
	}
	m, err := Parse(manifestPage, block[1])
	if err != nil || len(m.Plugins) != 2 || m.Plugins[0].ConfigSchema == nil || m.Timeouts.Reconcile != 10*time.Second {
		t.Errorf("%+v, %v", m, err)
	}
}

// keysOf are the keys of a struct as the page writes them, with their types. Rules of
// a bundle, of a plugin and of admission have one table each.
func keysOf(s reflect.Type, at string, out map[string]string) {
	for i := range s.NumField() {
		tag, _, _ := strings.Cut(s.Field(i).Tag.Get("yaml"), ",")
		key, kind := at+tag, s.Field(i).Type
		if kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		switch {
		case kind == reflect.TypeFor[ConfigSchema]():
			out[key] = "schema"
		case kind == reflect.TypeFor[time.Duration]():
			out[key] = "duration"
		case kind.Kind() == reflect.Struct:
			out[key] = "object"
			keysOf(kind, key+".", out)
		case kind.Kind() == reflect.Map:
			out[key] = "map"
			keysOf(kind.Elem().Elem(), key+".*.", out)
		case kind.Kind() == reflect.Slice:
			out[key] = "list"
			if kind.Elem().Kind() != reflect.Struct {
				break
			}
			if tag == "rules" || tag == "admissionRules" {
				key = tag // one table, wherever it stands
			}
			keysOf(kind.Elem(), key+"[].", out)
		case kind.Kind() == reflect.Bool:
			out[key] = "boolean"
		case kind.Kind() == reflect.Int:
			out[key] = "integer"
		default:
			out[key] = kind.Kind().String()
		}
	}
}
