package patchbounds

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func list(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("1,", n), ",") + "]" }

func nested(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }

// pointer has n levels.
func pointer(n int) string { return strings.Repeat("/a", n) }

func move(op, from, path string) string {
	return fmt.Sprintf(`{"op":%q,"from":%q,"path":%q}`, op, from, path)
}

func TestMeasure(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want measures
	}{
		"nothing":             {"", measures{}},
		"a scalar":            {"1", measures{}},
		"an object":           {`{"a":1}`, measures{1, 6, 0}},
		"two levels":          {`{"a":[]}`, measures{2, 8, 0}},
		"a list":              {`[1,2,3]`, measures{1, 6, 9}},
		"lists in a list":     {`[[1,2,3],[4]]`, measures{2, 20, 13}},
		"members are none":    {`{"a":1,"b":2,"c":3}`, measures{1, 18, 0}},
		"what is quoted":      {`["[,,\",]"]`, measures{1, 10, 0}},
		"an open quote":       {`["[[[`, measures{1, 4, 0}},
		"closed without open": {`]]},,[1,2]`, measures{1, 4, 4}},
		"as deep as any":      {nested(maxDepth), measures{maxDepth, 300_030_000, 0}},
		"deeper than any":     {strings.Repeat("[", maxDepth+1), measures{}},
	} {
		if got := measure([]byte(tt.text)); got != tt.want {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
}

func TestReach(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want int
	}{
		"nothing":              {"", 0},
		"no list":              {`{"path":"/a"}`, 0},
		"no operation":         {`[null]`, 0},
		"the whole":            {`[{"op":"replace","path":"","value":{}}]`, 0},
		"the longest":          {`[{"op":"add","path":"/a/b"},{"op":"test","path":"/a/b/c"},{"op":"remove","path":"/a"}]`, 3},
		"slashes in a name":    {`[{"op":"add","path":"/a~1b~1c/d"}]`, 2},
		"as code points":       {`[{"op":"add","path":"\u002fa\/b"}]`, 2},
		"one member twice":     {`[{"op":"add","path":"/a/b","path":"/a"}]`, 1},
		"in another case":      {`[{"op":"add","path":"/a/b","PATH":"/a"}]`, 2},
		"no text":              {`[{"op":"add","path":7}]`, 0},
		"up":                   {`[` + move("move", "/a/b/c", "/d") + `]`, 5},
		"down":                 {`[` + move("move", "/a", "/b/c/d") + `]`, 5},
		"at its level":         {`[` + move("move", "/a/b", "/a/c") + `]`, 2},
		"up and down":          {`[` + move("move", "/a/b", "/c") + "," + move("copy", "/c", "/a/c") + `]`, 4},
		"up to nowhere":        {`[{"op":"move","from":"/a/b"}]`, 4},
		"from that is not one": {`[{"op":"add","from":"/a/b/c","path":"/a"}]`, 1},
		"from that is no text": {`[{"op":"move","from":7,"path":"/a"}]`, 1},
	} {
		if got, _ := reach([]byte(tt.text)); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
}

func TestPatches(t *testing.T) {
	const (
		js, merge, strategic = "application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json"
		apply                = "application/apply-patch+yaml"
	)
	for name, tt := range map[string]struct {
		method, contentType, body string
		refused                   string // empty: it reaches the handler
	}{
		"small":                      {http.MethodPatch, merge, `{"a":1}`, ""},
		"deep":                       {http.MethodPatch, merge, nested(MaxLevels), ""},
		"one level more":             {http.MethodPatch, merge, nested(MaxLevels + 1), "it may have 256 levels, this one has 257"},
		"lists":                      {http.MethodPatch, merge, `{"a":` + strings.Repeat("[", MaxLevels) + strings.Repeat("]", MaxLevels) + "}", "this one has 257"},
		"deeper than decoders go":    {http.MethodPatch, merge, nested(maxDepth + 1), ""},
		"with a charset":             {http.MethodPatch, merge + "; charset=utf-8", nested(9000), "nests too deep"},
		"in a JSON patch":            {http.MethodPatch, js, `[{"op":"add","path":"/data","value":` + nested(9000) + "}]", "nests too deep"},
		"many that are less deep":    {http.MethodPatch, merge, `{"a":[` + strings.Repeat(nested(250)+",", 800) + "1]}", "length times depth may be"},
		"a long pointer":             {http.MethodPatch, js, `[{"op":"add","path":"` + pointer(MaxLevels) + `","value":1}]`, ""},
		"one longer":                 {http.MethodPatch, js, `[{"op":"add","path":"` + pointer(MaxLevels+1) + `","value":1}]`, "may sum up to 256, these have 257"},
		"from far":                   {http.MethodPatch, js, "[" + move("copy", pointer(MaxLevels+1), pointer(MaxLevels+1)) + "]", "these have 257"},
		"up step by step":            {http.MethodPatch, js, "[" + move("move", pointer(200), "/b") + "," + move("move", "/b"+pointer(199), "/c") + "]", "these have 598"},
		"down step by step":          {http.MethodPatch, js, "[" + move("move", "/b", pointer(200)) + "," + move("move", "/a", "/c"+pointer(199)) + "]", "these have 598"},
		"moves within a list":        {http.MethodPatch, js, "[" + strings.Repeat(move("move", "/spec/containers/0", "/spec/containers/1")+",", 9_999) + move("move", "/a", "/b") + "]", ""},
		"as many operations":         {http.MethodPatch, js, "[" + strings.Repeat("null,", 9_999) + "null]", ""},
		"one operation more":         {http.MethodPatch, js, "[" + strings.Repeat("null,", 10_000) + "null]", "The allowed maximum operations in a JSON patch is 10000, got 10001"},
		"as many members of a merge": {http.MethodPatch, merge, "[" + strings.Repeat("null,", 10_000) + "null]", ""},
		"a pointer of a merge":       {http.MethodPatch, merge, `{"path":"` + pointer(9000) + `"}`, ""},
		"deep and strategic":         {http.MethodPatch, strategic, nested(9000), ""},
		"long and flat":              {http.MethodPatch, merge, `{"a":"` + strings.Repeat("x", 3<<20) + `"}`, ""},
		"as many items as there may": {http.MethodPatch, strategic, list(5000), ""},
		"one more":                   {http.MethodPatch, strategic, list(5001), "these have 25010001"},
		"many lists":                 {http.MethodPatch, strategic, "[" + strings.Repeat(list(1000)+",", 26) + "1]", "these have 26000729"},
		"one more, of a merge":       {http.MethodPatch, merge, list(5001), ""},
		"an apply":                   {http.MethodPatch, apply, nested(9000), ""},
		"no patch":                   {http.MethodPost, merge, nested(9000), ""},
		"no JSON":                    {http.MethodPatch, merge, `{"a":`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var refused error
			reached := ""
			p := Patches{
				Body:   func(req *http.Request) ([]byte, error) { return io.ReadAll(req.Body) },
				Refuse: func(_ http.ResponseWriter, _ *http.Request, err error) { refused = err },
			}
			req := httptest.NewRequest(tt.method, "/api/v1/namespaces/default/configmaps/a", strings.NewReader(tt.body))
			req.Header.Set("Content-Type", tt.contentType)
			p.Before(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = "yes" })).ServeHTTP(httptest.NewRecorder(), req)
			if tt.refused == "" {
				if refused != nil || reached == "" {
					t.Errorf("refused: %v", refused)
				}
				return
			}
			if !apierrors.IsRequestEntityTooLargeError(refused) || !strings.Contains(refused.Error(), tt.refused) || reached != "" {
				t.Errorf("got %v, want %q", refused, tt.refused)
			}
		})
	}
}

// What cannot be read is left to the handler, which meets the same fault.
func TestUnreadable(t *testing.T) {
	reached := false
	p := Patches{Body: func(*http.Request) ([]byte, error) { return nil, errors.New("cut off") }}
	req := httptest.NewRequest(http.MethodPatch, "/", strings.NewReader("{"))
	req.Header.Set("Content-Type", "application/merge-patch+json")
	p.Before(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true })).ServeHTTP(httptest.NewRecorder(), req)
	if !reached {
		t.Error("it did not reach the handler")
	}
}

func FuzzMeasure(f *testing.F) {
	for _, s := range []string{
		"", `{"a":[1,{"b":"c\\"}]}`, "]]", `"\`, nested(MaxLevels + 1),
		`[{"op":"add","path":"` + pointer(MaxLevels+1) + `","value":1}]`, "[" + move("move", "/a~1b/c", `\u002fa`) + "]",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n := int64(len(text))
		if m := measure([]byte(text)); m.nesting < 0 || m.pairs < 0 || m.pairs > n*n || m.levels < 0 || m.levels > maxDepth || m.nesting > n*m.levels {
			t.Errorf("%d bytes: %+v", n, m)
		}
		// A pointer has no more levels than bytes, and those of a move count three times.
		levels, operations := reach([]byte(text))
		if levels < 0 || int64(levels) > 3*n || operations < 0 || int64(operations) > n {
			t.Errorf("%d bytes: %d levels are reached by %d operations", n, levels, operations)
		}
	})
}
