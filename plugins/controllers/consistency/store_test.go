package consistency

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type at string

func (a *at) LastStoreSyncResourceVersion() string { return string(*a) }

func TestReady(t *testing.T) {
	object := func(version string) *metav1.ObjectMeta { return &metav1.ObjectMeta{ResourceVersion: version} }
	for name, tt := range map[string]struct {
		wrote []string
		read  at
		ready bool
	}{
		"nothing written":     {nil, "1", true},
		"the cache has it":    {[]string{"9"}, "9", true},
		"the cache is behind": {[]string{"10"}, "9", false},
		"the newest counts":   {[]string{"12", "11"}, "11", false},
		"unknown":             {[]string{"12"}, "", true},
		"no number":           {[]string{"x"}, "1", true},
	} {
		t.Run(name, func(t *testing.T) {
			read := tt.read
			s := New(map[string]Cache{"pods": &read})
			for _, v := range tt.wrote {
				s.Wrote("default/web", "u", "pods", object(v))
				s.Wrote("default/web", "u", "others", object("1000")) // no cache of it
			}
			if err := s.Ready("default/other"); err != nil {
				t.Error(err)
			}
			err := s.Ready("default/web")
			if (err == nil) != tt.ready || err != nil && !strings.Contains(err.Error(), "pods") {
				t.Fatalf("ready: %v", err)
			}
			read = "100"
			if err := s.Ready("default/web"); err != nil || len(s.writes) != 0 {
				t.Errorf("in the end: %v, %d records", err, len(s.writes))
			}
		})
	}
}

// What an earlier owner of the name waited for does not hold back the next.
func TestAnotherOwnerOfTheName(t *testing.T) {
	read := at("1")
	s := New(map[string]Cache{"pods": &read})
	s.Wrote("default/web", "old", "pods", &metav1.ObjectMeta{ResourceVersion: "9"})
	s.Wrote("default/web", "new", "pods", &metav1.ObjectMeta{ResourceVersion: "1"})
	if err := s.Ready("default/web"); err != nil {
		t.Error(err)
	}
	s.Wrote("default/web", "new", "pods", &metav1.ObjectMeta{ResourceVersion: "9"})
	s.Forget("default/web")
	if err := s.Ready("default/web"); err != nil {
		t.Error(err)
	}
}
