package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	admissionv1 "k8s.io/api/admission/v1"
)

func TestMatchesResource(t *testing.T) {
	tests := map[string]struct {
		pattern, group, version, resource, subresource string
		want                                           bool
	}{
		"core":                        {"v1/pods", "", "v1", "pods", "", true},
		"core of another group":       {"v1/pods", "metrics.k8s.io", "v1", "pods", "", false},
		"core with subresource":       {"v1/pods/exec", "", "v1", "pods", "exec", true},
		"subresource is not meant":    {"v1/pods", "", "v1", "pods", "status", false},
		"group":                       {"apps/v1/deployments", "apps", "v1", "deployments", "", true},
		"group with subresource":      {"apps/v1/deployments/scale", "apps", "v1", "deployments", "scale", true},
		"any version":                 {"apps/*/deployments", "apps", "v1beta1", "deployments", "", true},
		"any resource":                {"*/*/*", "apps", "v1", "deployments", "", true},
		"any resource, not below it":  {"*/*/*", "apps", "v1", "deployments", "scale", false},
		"any subresource":             {"v1/pods/*", "", "v1", "pods", "status", true},
		"any subresource is one":      {"v1/pods/*", "", "v1", "pods", "", false},
		"a word is no pattern":        {"pods", "", "v1", "pods", "", false},
		"what has too many parts":     {"a/b/c/d/e", "a", "b", "c", "d", false},
		"custom resources have a dot": {"example.com/v1/toys", "example.com", "v1", "toys", "", true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := matchesResource(test.pattern, test.group, test.version, test.resource, test.subresource); got != test.want {
				t.Errorf("%s matches %s/%s/%s/%s: %v, want %v", test.pattern, test.group, test.version, test.resource, test.subresource, got, test.want)
			}
		})
	}
}

// A question that is too late is so whichever side notices first.
func TestLate(t *testing.T) {
	open, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	over, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	for name, tc := range map[string]struct {
		ctx  context.Context
		err  error
		want bool
	}{
		"the host":       {over, context.DeadlineExceeded, true},
		"the connection": {open, status.Error(codes.DeadlineExceeded, "stream terminated by RST_STREAM with error code: CANCEL"), true},
		"the process":    {over, status.Error(codes.Unknown, "it gave up"), true},
		"nobody":         {open, status.Error(codes.Unknown, "plugin panicked"), false},
		"without bounds": {context.Background(), status.Error(codes.Unavailable, "gone"), false},
	} {
		if got := late(tc.ctx, tc.err); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Mutators and validators answer alike as a module and as a process, and
// survive what they do wrong.
func TestAdmission(t *testing.T) {
	for _, transport := range []string{TransportWASM, TransportProcess} {
		t.Run(transport, func(t *testing.T) {
			cfg := testConfig(t, transport)
			cfg.Bundles = []BundleConfig{{Name: "greeter", Transport: transport}}
			cfg.Profiles, cfg.Admission = nil, []string{"label", "refuse"}
			h := runHost(t, cfg, nil)
			list, ok := h.Admissions()
			if !ok || len(list) != 2 || !list[0].Mutates() || list[1].Mutates() {
				t.Fatalf("admissions %v, %v", list, ok)
			}
			label, refuse := list[0], list[1]
			if !label.Matches("CREATE", "", "v1", "pods", "") || label.Matches("DELETE", "", "v1", "pods", "") {
				t.Error("label is for creates and updates of pods")
			}
			ask := func(a *Admission, image string) (admissionv1.AdmissionResponse, error) {
				var response admissionv1.AdmissionResponse
				request := fmt.Sprintf(`{"uid":"u","operation":"CREATE","userInfo":{"username":"ann"},"object":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"image":%q}]}}}`, image)
				data, err := a.Review(t.Context(), []byte(request))
				if err == nil {
					err = json.Unmarshal(data, &response)
				}
				return response, err
			}
			got, err := ask(label, "fine")
			if want := `[{"op":"add","path":"/metadata/labels/team","value":"ann"}]`; err != nil || string(got.Patch) != want || len(got.Warnings) != 1 {
				t.Errorf("label: %v, %+v; want patch %s", err, got, want)
			}
			if got, err = ask(refuse, "fine"); err != nil || !got.Allowed {
				t.Errorf("refuse of what is fine: %v, %+v", err, got)
			}
			if got, err = ask(refuse, "latest"); err != nil || got.Allowed || got.Result.Code != 403 || got.Result.Message != "images must not be latest" {
				t.Errorf("refuse of latest: %v, %+v", err, got)
			}
			if got, err = ask(refuse, "teapot"); err != nil || got.Allowed || got.Result.Code != 418 {
				t.Errorf("refuse of a teapot: %v, %+v", err, got)
			}
			for image, want := range map[string]string{"panics": "plugin panicked", "loops": "no answer in time"} {
				if _, err = ask(refuse, image); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("refuse that %s: %v", image, err)
				}
			}
			// Many at once, of which some break their instance.
			var group sync.WaitGroup
			for i := range 20 {
				group.Go(func() {
					image := "fine"
					if i%5 == 4 && transport == TransportWASM {
						image = "loops"
					}
					if got, err := ask(refuse, image); (err == nil && got.Allowed) != (image == "fine") && !strings.Contains(fmt.Sprint(err), "busy") {
						t.Errorf("request %d about %s: %v, %+v", i, image, err, got)
					}
				})
			}
			group.Wait()
			if got, err = ask(refuse, "fine"); err != nil || !got.Allowed {
				t.Errorf("refuse after all that: %v, %+v", err, got)
			}
			// A changed configuration reaches every instance, and none is started again.
			before := h.present().units[0].started
			cfg.Bundles = []BundleConfig{{Name: "greeter", Transport: transport, Config: json.RawMessage(`{"refuse":{"forbidden":"old"}}`)}}
			if err := h.Reconfigure(cfg); err != nil {
				t.Fatal(err)
			}
			list, _ = h.Admissions()
			for range 2 * maxReviewers {
				for image, allowed := range map[string]bool{"old": false, "latest": true} {
					if got, err = ask(list[1], image); err != nil || got.Allowed != allowed {
						t.Errorf("refuse of %s with a live configuration: %v, %+v", image, err, got)
					}
				}
			}
			if now := h.present().units[0].started; now != before {
				t.Errorf("%d guests were started for a configuration", now-before)
			}
		})
	}
}
