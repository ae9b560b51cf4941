package patchbounds

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func list(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("1,", n), ",") + "]" }

func nested(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }

func TestMeasure(t *testing.T) {
	for name, tt := range map[string]struct {
		text    string
		nesting int64
		pairs   int64
	}{
		"nothing":             {"", 0, 0},
		"a scalar":            {"1", 0, 0},
		"an object":           {`{"a":1}`, 6, 0},
		"two levels":          {`{"a":[]}`, 8, 0},
		"a list":              {`[1,2,3]`, 6, 9},
		"lists in a list":     {`[[1,2,3],[4]]`, 20, 13},
		"members are none":    {`{"a":1,"b":2,"c":3}`, 18, 0},
		"what is quoted":      {`["[,,\",]"]`, 10, 0},
		"an open quote":       {`["[[[`, 4, 0},
		"closed without open": {`]]},,[1,2]`, 4, 4},
		"deeper than any":     {strings.Repeat("[", maxDepth+1), 0, 0},
	} {
		if nesting, pairs := measure([]byte(tt.text)); nesting != tt.nesting || pairs != tt.pairs {
			t.Errorf("%s: nesting %d and %d pairs, want %d and %d", name, nesting, pairs, tt.nesting, tt.pairs)
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
		"deep":                       {http.MethodPatch, merge, nested(4000), ""},
		"too deep for its length":    {http.MethodPatch, merge, nested(9000), "nests too deep"},
		"with a charset":             {http.MethodPatch, merge + "; charset=utf-8", nested(9000), "nests too deep"},
		"in a JSON patch":            {http.MethodPatch, js, `[{"op":"add","path":"/data","value":` + nested(9000) + "}]", "nests too deep"},
		"many that are less deep":    {http.MethodPatch, merge, `{"a":[` + strings.Repeat(nested(1000)+",", 60) + "1]}", "nests too deep"},
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
	for _, s := range []string{"", `{"a":[1,{"b":"c\\"}]}`, "]]", `"\`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n := int64(len(text))
		if nesting, pairs := measure([]byte(text)); nesting < 0 || pairs < 0 || pairs > n*n || nesting > n*maxDepth {
			t.Errorf("%d bytes: nesting %d, %d pairs", n, nesting, pairs)
		}
	})
}
