// Package answers writes objects to clients in the ways of the kernel's own that creates of
// pods and patches of their statuses have.
//
// It owns the choice of a format (Plain) and the writing (Writer). What is to be converted to
// a table or formatted for readers is none of its: the machinery's handler answers that.
//
// An object passes from the storage to Writer.Write, as it is or with its encoding, and from
// there to the client. Nobody may write into an object on its way.
//
// It must not import kernel/api or a kind.
package answers
