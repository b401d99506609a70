/* All files of the page, one after the other; the table that tools/embed_page.py writes says where each begins. */
    .section .rodata
    .globl dgxmm_page_bytes
    .hidden dgxmm_page_bytes
dgxmm_page_bytes:
    .incbin DGXMM_PAGE_BYTES
    .section .note.GNU-stack, "", %progbits
