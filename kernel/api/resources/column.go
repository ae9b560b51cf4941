package resources

import (
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

func cols(c ...metav1.TableColumnDefinition) []metav1.TableColumnDefinition { return c }

func stringColumn(name, description string) metav1.TableColumnDefinition {
	return column(name, "string", "", description, 0)
}

func integerColumn(name, description string) metav1.TableColumnDefinition {
	return column(name, "integer", "", description, 0)
}

// wideColumn shows with -o wide only.
func wideColumn(name, description string) metav1.TableColumnDefinition {
	return column(name, "string", "", description, 1)
}

// createdColumns is the table of kinds that have none of their own.
func createdColumns() []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		nameColumn(),
		column("Created At", "date", "", metaDoc["creationTimestamp"], 0),
	}
}

func createdRow(obj metav1.Object) []any {
	return []any{obj.GetName(), obj.GetCreationTimestamp().UTC().Format(time.RFC3339)}
}

// ageCell is the time since t in the short form of all tables.
func ageCell(t metav1.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(time.Since(t.Time))
}

// containerCells joins names and images with commas.
func containerCells(containers []v1.Container) (names, images string) {
	n, i := make([]string, len(containers)), make([]string, len(containers))
	for k, c := range containers {
		n[k], i[k] = c.Name, c.Image
	}
	return strings.Join(n, ","), strings.Join(i, ",")
}
