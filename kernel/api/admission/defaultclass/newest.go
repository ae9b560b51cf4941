package defaultclass

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Newest is the youngest class of which one of the annotations is "true". There is none
// where found is false. It changes no class.
func Newest[C metav1.Object](all []C, marks ...string) (best C, found bool) {
	for _, c := range all {
		if marked(c, marks) && (!found || before(c, best)) {
			best, found = c, true
		}
	}
	return best, found
}

func marked(c metav1.Object, marks []string) bool {
	for _, mark := range marks {
		if c.GetAnnotations()[mark] == "true" {
			return true
		}
	}
	return false
}

// before reports whether a is chosen rather than b.
func before(a, b metav1.Object) bool {
	made, other := a.GetCreationTimestamp(), b.GetCreationTimestamp()
	return other.Before(&made) || other.Equal(&made) && a.GetName() < b.GetName()
}
