/* SPDX-License-Identifier: MIT */
/* object.h - the bytes from NAME_object to NAME_object_end are an ELF file for libbpf. */
#ifndef TRACE_OBJECT_H
#define TRACE_OBJECT_H

extern const char trace_object[], trace_object_end[];
extern const char sniff_object[], sniff_object_end[];

#endif
