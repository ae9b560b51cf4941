// Package defaultclass chooses among the classes of one kind that are marked as the
// default: the youngest, and of two of one age the first by name.
//
// It owns that choice for every kind of class. Data passes through as: the classes of
// a lister, and the annotations that mark a default → one class. It must not import the
// plugins that ask it.
package defaultclass
