package defaultclass

import (
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestNewest(t *testing.T) {
	class := func(name, mark, value string, age time.Duration) *storagev1.StorageClass {
		made := metav1.NewTime(time.Unix(1000, 0).Add(-age))
		return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{mark: value}, CreationTimestamp: made}}
	}
	for _, tt := range []struct {
		name string
		all  []*storagev1.StorageClass
		want string
	}{
		{"none", nil, ""},
		{"none is marked", []*storagev1.StorageClass{class("a", "other", "true", 0), class("b", "now", "false", 0), class("c", "now", "", 0)}, ""},
		{"either mark", []*storagev1.StorageClass{class("a", "other", "true", 0), class("b", "once", "true", 9)}, "b"},
		{"the youngest", []*storagev1.StorageClass{class("a", "now", "true", 9), class("c", "now", "true", 1), class("b", "once", "true", 5)}, "c"},
		{"the first by name", []*storagev1.StorageClass{class("c", "now", "true", 1), class("a", "now", "true", 1), class("b", "now", "true", 1)}, "a"},
	} {
		got, found := Newest(tt.all, "now", "once")
		if found != (tt.want != "") || found && got.Name != tt.want {
			t.Errorf("%s: %v %v, want %q", tt.name, got, found, tt.want)
		}
	}
}
