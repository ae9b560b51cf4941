package api

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"

	"pintle.dev/pintle/kernel/api/resources"
)

// table prints a kind by its columns and rows.
type table struct {
	columns []metav1.TableColumnDefinition
	row     func(runtime.Object) ([]any, error)
	order   func(a, b runtime.Object) int
}

// scaleTable prints the Scale of any kind.
var scaleTable = table{columns: resources.ScaleColumns(), row: resources.ScaleRow}

func newTable(k resources.Kind) rest.TableConvertor {
	if k.Row == nil {
		return rest.NewDefaultTableConvertor(schema.GroupResource{Group: k.GVK.Group, Resource: k.Resource})
	}
	return table{columns: k.Columns, row: k.Row, order: k.RowOrder}
}

func (t table) ConvertToTable(_ context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	out := &metav1.Table{ColumnDefinitions: t.columns, Rows: []metav1.TableRow{}}
	switch o := options.(type) {
	case nil:
	case *metav1.TableOptions:
		if o != nil && o.NoHeaders {
			out.ColumnDefinitions = nil
		}
	default:
		return nil, fmt.Errorf("unrecognized type %T for table options, can't display tabular output", options)
	}
	add := func(item runtime.Object) error {
		cells, err := t.row(item)
		if err != nil {
			return err
		}
		out.Rows = append(out.Rows, metav1.TableRow{
			Cells: cells, Conditions: rowConditions(item), Object: runtime.RawExtension{Object: item},
		})
		return nil
	}
	if !meta.IsListType(obj) {
		if m, err := meta.CommonAccessor(obj); err == nil {
			out.ResourceVersion = m.GetResourceVersion()
		}
		return out, add(obj)
	}
	if m, err := meta.ListAccessor(obj); err == nil {
		out.ResourceVersion = m.GetResourceVersion()
		out.Continue = m.GetContinue()
		out.RemainingItemCount = m.GetRemainingItemCount()
	}
	if t.order == nil {
		return out, meta.EachListItem(obj, add)
	}
	items, err := meta.ExtractList(obj)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(items, t.order)
	for _, item := range items {
		if err := add(item); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// rowConditions marks the rows of pods that are through.
func rowConditions(obj runtime.Object) []metav1.TableRowCondition {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil
	}
	c := metav1.TableRowCondition{Type: metav1.RowCompleted, Status: metav1.ConditionTrue, Reason: string(pod.Status.Phase)}
	switch pod.Status.Phase {
	case corev1.PodSucceeded:
		c.Message = "The pod has completed successfully."
	case corev1.PodFailed:
		c.Message = "The pod failed."
	default:
		return nil
	}
	return []metav1.TableRowCondition{c}
}
