package resources

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/endpoints/request"
)

var subdomains = []string{
	"", "a", "0", "-", ".", "a.", ".a", "a..b", "a-.b", "a.-b", "a.b-", "-a", "a-b", "a--b", "a.b.c", "A", "a_b", "ä", "a b",
	"default", "pod-1.18a2b3c4d5e6f708", strings.Repeat("a", 64), strings.Repeat("a", 253), strings.Repeat("a", 254),
}

func checkSubdomain(t *testing.T, s string) {
	t.Helper()
	if got, want := isSubdomain(s), len(validation.IsDNS1123Subdomain(s)) == 0; got != want {
		t.Errorf("%q: %t, want %t", s, got, want)
	}
	for _, prefix := range []bool{false, true} {
		if got, want := eventName(s, prefix), apivalidation.NameIsDNSSubdomain(s, prefix); len(got) != len(want) {
			t.Errorf("name %q, prefix %t: %q, want %q", s, prefix, got, want)
		}
	}
}

func TestSubdomain(t *testing.T) {
	for _, s := range subdomains {
		checkSubdomain(t, s)
	}
}

func FuzzSubdomain(f *testing.F) {
	for _, s := range subdomains {
		f.Add(s)
	}
	f.Fuzz(checkSubdomain)
}

// A controller whose name is wrong is refused each time, whatever came before.
func TestEventControllers(t *testing.T) {
	ctx := request.WithRequestInfo(context.Background(), &request.RequestInfo{APIGroup: "events.k8s.io", APIVersion: "v1"})
	for range 2 {
		for controller, want := range map[string]int{"default-scheduler": 0, "example.com/x": 0, "not right": 1, "": 3} {
			for range 2 {
				e := &corev1.Event{
					ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: "default"}, EventTime: metav1.NewMicroTime(time.Unix(1, 0)), Type: corev1.EventTypeNormal,
					InvolvedObject: corev1.ObjectReference{Namespace: "default"}, ReportingController: controller, ReportingInstance: "i", Action: "a", Reason: "r",
				}
				if errs := (eventStrategy{}).Validate(ctx, e); len(errs) != want {
					t.Errorf("%q: %v", controller, errs)
				}
			}
		}
	}
}
