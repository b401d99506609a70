import * as Ariakit from '@ariakit/react';
import { useEffect } from 'react';
import styles from './Menu.module.css';

export interface MenuAction {
  label: string;
  onSelect: () => void;
}

export interface ActionMenuProps {
  label: string;
  /** The button that it belongs to; null: it is closed. */
  anchor: HTMLElement | null;
  actions: MenuAction[];
  onClose: () => void;
}

/**
 * What can be done, under the button that was pressed. One menu serves all rows of a table: one for each would cost more
 * than all the rest of the row.
 */
export function ActionMenu({ label, anchor, actions, onClose }: ActionMenuProps) {
  const menu = Ariakit.useMenuStore({
    open: anchor !== null,
    setOpen: (open) => {
      if (!open) onClose();
    },
    placement: 'bottom-end',
  });
  useEffect(() => {
    if (!anchor) return;
    menu.setAnchorElement(anchor);
    menu.setInitialFocus('first');
    menu.setAutoFocusOnShow(true);
  }, [menu, anchor]);

  return (
    <Ariakit.Menu
      store={menu}
      aria-label={label}
      finalFocus={anchor}
      hideOnInteractOutside={(event) => !anchor?.contains(event.target as Node)}
      gutter={4}
      portal={false}
      fixed
      unmountOnHide
      className={styles.menu}
    >
      {actions.map((action) => (
        <Ariakit.MenuItem
          key={action.label}
          className={styles.item}
          onClick={() => {
            anchor?.focus(); // so that a dialog that this opens gives the focus back to the button
            action.onSelect();
          }}
        >
          {action.label}
        </Ariakit.MenuItem>
      ))}
    </Ariakit.Menu>
  );
}
