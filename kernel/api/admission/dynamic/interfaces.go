package dynamic

import (
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
)

// interfaces are those of a request, with conversion between equal types.
type interfaces struct{ admission.ObjectInterfaces }

// GetObjectConvertor implements admission.ObjectInterfaces.
func (i interfaces) GetObjectConvertor() runtime.ObjectConvertor {
	return convertor{i.ObjectInterfaces.GetObjectConvertor()}
}

// convertor copies an object that is of the wanted type already: there are no internal
// types here, between which upstream converts. The copies share what they point to,
// and nobody writes to that: what changes an object makes a new one.
type convertor struct{ runtime.ObjectConvertor }

// Convert implements runtime.ObjectConvertor.
func (c convertor) Convert(in, out, context any) error {
	from, to := reflect.ValueOf(in), reflect.ValueOf(out)
	if _, custom := in.(runtime.Unstructured); custom || from.Kind() != reflect.Pointer || from.Type() != to.Type() {
		return c.ObjectConvertor.Convert(in, out, context)
	}
	if from.Pointer() != to.Pointer() {
		to.Elem().Set(from.Elem())
	}
	return nil
}

// withKindOf gives an object of a Go type the kind back that it says now, or does
// not: conversion sets it.
func withKindOf(obj runtime.Object) (restore func()) {
	if obj == nil {
		return func() {}
	}
	if _, custom := obj.(*unstructured.Unstructured); custom {
		return func() {}
	}
	kind := obj.GetObjectKind().GroupVersionKind()
	return func() { obj.GetObjectKind().SetGroupVersionKind(kind) }
}
